#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/checkpoint.h"
#include "store/weights.h"
#include "support/caller.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

// What is loaded is what the model computes with, whatever was gathered before.

namespace nanofsdp::store::loading_test {
namespace {

using testing::Caller;
using testing::CallerOptions;

void freeze_the_first(testing::InTurn<testing::CallerLayer>& model) {
  for (nn::Parameter* p : model.first.named_parameters()) p->requires_grad = false;
}

// Whole copies of frozen parameters, which units keep for good where nothing else shards them, are
// stale after loading, as those of trained ones.
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
          save_weights(directory.file(""), c.sharded, {}, c.context.rank);
          change(99);
          load_weights(directory.file(""), c.sharded);
          EXPECT_EQ(c.evaluate(), output);
          EXPECT_EQ(c.weights(), saved);
        },
        freeze_the_first);
  });
}

// In the middle of a pass nothing may be loaded: the units at work would go on with old copies. The
// error names a unit, and nothing has been written then.
TEST(Loading, InTheMiddleOfAPassIsRefused) {
  testing::for_all_shardings([](const CallerOptions& options) {
    const testing::TemporaryDirectory directory;
    testing::run_callers(options, [&](Caller& c) {
      const std::vector<float> before = c.weights();
      save_checkpoint(directory.file(""), c.sharded, c.optimizer);
      save_weights(directory.file(""), c.sharded, {}, c.context.rank);
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

}  // namespace
}  // namespace nanofsdp::store::loading_test
