#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// Lets a unit's module throw after its forward, or after its backward.
void let_throw(nn::Module& module, bool in_backward) {
  const auto fail = [](nn::Tape&) { throw std::runtime_error("given up"); };
  nn::Module::Hooks& hooks = module.hooks;
  (in_backward ? hooks.post_backward : hooks.post_forward) = fail;
}

// A pass that ends by an exception, wherever that is, leaves a model that trains as if nothing had
// been, once the tape is told to end it.
TEST(GivenUp, PassLeavesAModelThatTrainsOn) {
  const auto run = [](const TinyOptions& options, std::size_t at, bool in_backward) {
    return testing::run_ranks(Backend::local, 2,
                              [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                                TinyTraining training(context, std::move(group), options);
                                if (at < training.sharded.units().size()) {
                                  Unit& unit = training.sharded.units()[at];
                                  const nn::Module::Hooks hooks = unit.module().hooks;
                                  let_throw(unit.module(), in_backward);
                                  EXPECT_THROW(training.micro_step(7, 0), std::runtime_error);
                                  training.tape.end();
                                  unit.module().hooks = hooks;
                                  for (const Unit& u : training.sharded.units())
                                    u.require_at_rest("the next pass");
                                }
                                return training.run();
                              });
  };
  for (const Sharding& sharding : kShardings) {
    for (const bool no_sync : {false, true}) {
      const TinyOptions options{.strategy = sharding.strategy,
                                .forward_prefetch = 1,
                                .no_sync = no_sync,
                                .shard_size = sharding.replicates ? 1 : 0};
      const auto expected = run(options, 99, false);
      for (const std::size_t at : {0, 1, 3}) {
        for (const bool in_backward : {false, true}) {
          EXPECT_EQ(run(options, at, in_backward), expected)
              << sharding.name << ", unit " << at << (in_backward ? ", backward" : ", forward");
        }
      }
    }
  }
}

// What it had of gradients goes with it, even if nobody forgets them: the next pass is reduced
// alone.
TEST(GivenUp, PassLeavesNoGradients) {
  for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_gradients}) {
    const auto run = [&](bool give_up) {
      return testing::run_ranks(
          Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
            TinyTraining training(context, std::move(group), {.strategy = strategy});
            if (give_up) {
              nn::Module& last = training.sharded.units()[2].module();
              const nn::Module::Hooks hooks = last.hooks;
              let_throw(last, /*in_backward=*/true);
              EXPECT_THROW(training.micro_step(7, 0), std::runtime_error);
              training.tape.end();
              last.hooks = hooks;
            }
            training.micro_step(0, 0);
            std::vector<float> all;
            for (const ShardedParameters* row : training.sharded.rows()) {
              const std::span<float> shard = row->gradient_shard().span<float>();
              all.insert(all.end(), shard.begin(), shard.end());
            }
            return all;
          });
    };
    EXPECT_EQ(run(true), run(false)) << name_of(strategy);
  }
}

// Nor does it keep anything that a model needs to go.
TEST(GivenUp, PassLeavesAModelThatCanBeDestroyed) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {.forward_prefetch = 2});
                       training.step(0);
                       let_throw(training.sharded.units()[1].module(), true);
                       EXPECT_THROW(training.micro_step(1, 0), std::runtime_error);
                     });
}

// Two layers, of which a rank may leave out the first.
class Skips final : public nn::Module {
 public:
  Skips() {
    add("first", first_);
    add("second", second_);
  }
  bool skip = false;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return second_.forward(tape, skip ? x : first_.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = second_.backward(tape, dy);
    return skip ? d : first_.backward(tape, d);
  }
  nn::Linear first_{{.in = 4, .out = 4, .bias = false}};
  nn::Linear second_{{.in = 4, .out = 4, .bias = false}};
};

// Where forward gathers, ranks must use the same units: who does not is told, and nobody hangs.
TEST(GivenUp, PassInWhichRanksDisagreeNamesTheUnits) {
  for (const Backend backend : testing::backends()) {
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_gradients}) {
      try {
        testing::run_ranks(
            backend, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
              Skips model;
              comm::Mesh mesh(std::move(group));
              ShardedModel sharded(context, model, mesh,
                                   {.strategy = strategy, .wrap_policy = is_a<nn::Linear>});
              for (ShardedParameters* row : sharded.rows()) {
                if (!row->parameters().empty()) row->store(0, std::vector<float>(16, 1));
              }
              model.skip = context.rank == 1;
              nn::Tape tape(context);
              testing::Owned<float> x({2, 4}), dy({2, 4});
              tape.begin(true);
              sharded.forward(tape, x);
              sharded.backward(tape, dy);
            });
        FAIL() << name_of(strategy);
      } catch (const testing::RankError& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("first"), std::string::npos) << what;
        EXPECT_NE(what.find("second"), std::string::npos) << what;
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
