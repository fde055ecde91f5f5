#include <gtest/gtest.h>

#include <array>
#include <chrono>
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

// The place where a pass is given up: in a hook of the user on a unit, or inside the unit, while
// its parameters are whole and its gradients are half added up.
enum class Where {
  before_forward,
  inside_forward,
  after_forward,
  before_backward,
  inside_backward,
  after_backward
};
constexpr std::array kEverywhere = {Where::before_forward,  Where::inside_forward,
                                    Where::after_forward,   Where::before_backward,
                                    Where::inside_backward, Where::after_backward};

// Runs a micro-step in which the module of a unit throws, and gives it up.
void give_up(TinyTraining& training, std::size_t unit, Where where) {
  nn::Module* module = &training.sharded.units()[unit].module();
  const bool inside = where == Where::inside_forward || where == Where::inside_backward;
  if (inside) module = module->children().front().second;
  nn::Module::Hooks& hooks = module->hooks;
  nn::HookList& list = where == Where::before_forward    ? hooks.pre_forward
                       : where == Where::before_backward ? hooks.pre_backward
                       : where == Where::inside_forward || where == Where::after_forward
                           ? hooks.post_forward
                           : hooks.post_backward;
  const int handle = list.add([](nn::Tape&) { throw std::runtime_error("given up"); });
  EXPECT_THROW(training.micro_step(7, 0), std::runtime_error);
  training.tape.end();
  list.remove(handle);
}

// A pass ends by an exception at any place. When the tape is told to end it, the model trains on as
// if the pass had not happened.
TEST(GivenUp, PassLeavesAModelThatTrainsOn) {
  const auto run = [](const TinyOptions& options, std::size_t at, Where where) {
    return testing::run_ranks(Backend::local, 2,
                              [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                                TinyTraining training(context, std::move(group), options);
                                if (at < training.sharded.units().size()) {
                                  give_up(training, at, where);
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
      const auto expected = run(options, 99, Where::inside_forward);
      for (const std::size_t at : {0, 1, 3}) {
        for (const Where where : kEverywhere) {
          EXPECT_EQ(run(options, at, where), expected)
              << sharding.name << ", unit " << at << ", " << static_cast<int>(where);
        }
      }
    }
  }
}

// The gradients of that pass that were not reduced are dropped, even without zero_grad: the next
// pass is reduced alone.
TEST(GivenUp, PassLeavesNoGradients) {
  for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_gradients}) {
    const auto run = [&](bool gives_up) {
      return testing::run_ranks(
          Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
            TinyTraining training(context, std::move(group), {.strategy = strategy});
            if (gives_up) give_up(training, 2, Where::inside_backward);
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

// A tape may be destroyed in a pass, as when an exception leaves the function that has it, or when
// an evaluation has not been ended. The model trains on as if the pass had not happened.
TEST(GivenUp, WithItsTapeLeavesAModelThatTrainsOn) {
  enum class How { not_at_all, exception, forward, evaluation };
  for (const Sharding& sharding : kShardings) {
    const auto run = [&](How how) {
      const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(
            context, std::move(group),
            {.strategy = sharding.strategy, .shard_size = sharding.replicates ? 1 : 0});
        auto tokens = testing::tiny_tokens(0, 0, context.rank, 1, 0);
        const auto pass = [&] {
          nn::Tape tape(context);
          tape.begin(how != How::evaluation);
          training.sharded.forward(tape, tokens);
          if (how == How::exception) throw std::runtime_error("the loss is not finite");
        };
        if (how == How::exception) {
          EXPECT_THROW(pass(), std::runtime_error);
        } else if (how != How::not_at_all) {
          pass();
        }
        for (const Unit& u : training.sharded.units()) u.require_at_rest("the next pass");
        return training.run();
      };
      return testing::run_ranks(Backend::local, 2, body);
    };
    const auto expected = run(How::not_at_all);
    for (const How how : {How::exception, How::forward, How::evaluation})
      EXPECT_EQ(run(how), expected) << sharding.name << static_cast<int>(how);
  }
}

// The pass also keeps nothing that would prevent the destruction of the model.
TEST(GivenUp, PassLeavesAModelThatCanBeDestroyed) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {.forward_prefetch = 2});
                       training.step(0);
                       const auto fail = [](nn::Tape&) { throw std::runtime_error("given up"); };
                       training.sharded.units()[1].module().hooks.post_backward = fail;
                       EXPECT_THROW(training.micro_step(1, 0), std::runtime_error);
                     });
}

// Two layers. A rank may leave out the first one.
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

// If forward gathers, ranks must use the same units. A rank that uses another one gets an error,
// and no rank hangs.
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

// If whole copies stay from step to step, only the first pass after a step gathers. If a rank
// leaves out a unit in this pass, the others wait for it, and their error names the unit. In later
// passes it may leave units out.
TEST(GivenUp, PassInWhichARankSkipsAUnitNamesIt) {
  for (const auto strategy :
       {ShardingStrategy::shard_optimizer, ShardingStrategy::shard_gradients}) {
    for (const bool gathers : {false, true}) {
      const auto run = [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        Skips model;
        comm::Mesh mesh(std::move(group));
        ShardedModel sharded(context, model, mesh,
                             {.strategy = strategy, .wrap_policy = is_a<nn::Linear>});
        testing::store_random(sharded, 1);
        nn::Tape tape(context);
        for (const bool skips : {false, true}) {
          if (skips && gathers) testing::store_random(sharded, 2);
          model.skip = skips && context.rank == 1;
          testing::Owned<float> x({2, 4}), dy({2, 4});
          tape.begin(true);
          sharded.forward(tape, x);
          sharded.backward(tape, dy, /*last_micro_step=*/skips);
        }
      };
      try {
        testing::run_ranks(Backend::local, 2, run, {.timeout = std::chrono::seconds(1)});
        EXPECT_FALSE(gathers) << name_of(strategy);
      } catch (const testing::RankError& error) {
        EXPECT_TRUE(gathers) << error.what();
        EXPECT_NE(std::string(error.what()).find("unit first"), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
