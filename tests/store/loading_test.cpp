#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/checkpoint.h"
#include "store/weights.h"
#include "support/caller.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

// The model computes with the loaded values, even if older values were gathered before.

namespace nanofsdp::store::loading_test {
namespace {

using testing::Caller;
using testing::CallerOptions;

void freeze_the_first(testing::InTurn<testing::CallerLayer>& model) {
  for (nn::Parameter* p : model.first.named_parameters()) p->requires_grad = false;
}

// Units keep whole copies of frozen parameters if only these are unsharded. After loading, these
// copies are stale like those of trained parameters.
TEST(Loading, MakesEveryWholeCopyStale) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const testing::TemporaryDirectory directory;
    testing::run_callers(
        options,
        [&](Caller& c) {
          c.pass();
          c.step();
          const std::vector<float> saved = c.weights(), output = c.evaluate();
          save_checkpoint(directory.file(""), c.sharded, c.optimizer);
          const auto change = [&](std::uint32_t seed) {
            testing::store_random(c.sharded, seed);
            EXPECT_NE(c.evaluate(), output);
            c.mesh.world().barrier(*c.context.compute).synchronize();
          };
          change(77);
          load_checkpoint(directory.file(""), c.sharded, c.optimizer);
          EXPECT_EQ(c.evaluate(), output);
          EXPECT_EQ(c.weights(), saved);
          save_weights(directory.file(""), c.sharded, {});
          change(99);
          load_weights(directory.file(""), c.sharded);
          EXPECT_EQ(c.evaluate(), output);
          EXPECT_EQ(c.weights(), saved);
        },
        freeze_the_first);
  });
}

// In the middle of a pass nothing may be loaded, because units would compute with old copies. The
// error names a unit, and no parameter has been written.
TEST(Loading, InTheMiddleOfAPassIsRefused) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const testing::TemporaryDirectory directory;
    testing::run_callers(options, [&](Caller& c) {
      const std::vector<float> before = c.weights();
      save_checkpoint(directory.file(""), c.sharded, c.optimizer);
      save_weights(directory.file(""), c.sharded, {});
      c.mesh.world().barrier(*c.context.compute).synchronize();
      testing::store_random(c.sharded, 77);
      const std::vector<float> changed = c.weights();
      EXPECT_NE(changed, before);
      c.model.second.hooks.post_forward = [&](nn::Tape&) {
        const auto weights = [&] { load_weights(directory.file(""), c.sharded); };
        const auto checkpoint = [&] {
          load_checkpoint(directory.file(""), c.sharded, c.optimizer);
        };
        testing::expect_error<Error>(weights, "unit root");
        testing::expect_error<Error>(checkpoint, "unit root");
      };
      c.evaluate();
      EXPECT_EQ(c.weights(), changed);
    });
  });
}

// A checkpoint that lacks something is refused before any rank has changed a value.
TEST(Loading, OfACheckpointThatLacksMomentsChangesNothing) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const testing::TemporaryDirectory directory;
    testing::run_callers(
        options,
        [&](Caller& c) {
          c.pass();
          c.step();
          save_checkpoint(directory.file(""), c.sharded, c.optimizer);
        },
        freeze_the_first);
    testing::run_callers(options, [&](Caller& c) {  // here the first layer trains
      testing::store_random(c.sharded, 77);
      const std::vector<float> before = c.weights();
      testing::expect_error<UsageError>(
          [&] { load_checkpoint(directory.file(""), c.sharded, c.optimizer); }, ".exp_avg");
      EXPECT_EQ(c.weights(), before);
    });
  });
}

// The state of an optimizer lies behind that of the parameters, unit by unit.
TEST(Loading, IsRefusedWithAnOptimizerOfOtherUnits) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const testing::TemporaryDirectory directory;
    testing::run_callers(options, [&](Caller& c) {
      for (const std::size_t first : {0, 1}) {
        fsdp::AdamW part(c.context, c.sharded.units().subspan(first, 2 - first), {});
        const auto save = [&] { save_checkpoint(directory.file(""), c.sharded, part); };
        const auto load = [&] { load_checkpoint(directory.file(""), c.sharded, part); };
        testing::expect_error<Error>(save, "an optimizer of all units");
        save_checkpoint(directory.file(""), c.sharded, c.optimizer);
        testing::expect_error<Error>(load, "an optimizer of all units");
      }
    });
  });
}

// Each half of the ranks has a model, and its own rank 0 writes it.
TEST(Loading, ReadsWhatEachHalfOfTheRanksHasSaved) {
  const testing::TemporaryDirectory directory;
  testing::run_ranks(testing::Backend::local, 4, [&](Context& context, auto world) {
    const int half = context.rank / 2;
    const std::string mine = directory.file(std::to_string(half));
    std::filesystem::create_directories(mine);
    Caller c(context, world->split(half), {});
    testing::store_random(c.sharded, static_cast<std::uint32_t>(77 + half));
    const std::vector<float> before = c.weights();
    save_weights(mine, c.sharded, {});
    testing::store_random(c.sharded, 99);
    load_weights(mine, c.sharded);
    EXPECT_EQ(c.weights(), before);
  });
}

}  // namespace
}  // namespace nanofsdp::store::loading_test
