#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/caller.h"
#include "support/errors.h"

// Tests that looking changes nothing, and that hooks of the user are called beside those of the
// library.

namespace nanofsdp::fsdp::looking_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::run_callers;

using Model = testing::InTurn<testing::CallerLayer>;

std::vector<std::string> names(ShardedModel& sharded) {
  std::vector<std::string> all;
  for (const ShardedParameters* row : sharded.rows()) {
    for (const nn::Parameter* p : row->parameters()) all.push_back(p->name);
  }
  return all;
}

const std::vector<std::string> kNames = {"first.linear.weight", "first.linear.bias",
                                         "second.linear.weight", "second.linear.bias"};

// Reads everything that a user may read, before and after each step of training.
void look(Caller& c) {
  for (nn::Module* module :
       std::initializer_list<nn::Module*>{&c.model.second, &c.model, &c.model.first.linear}) {
    for (const nn::Parameter* p : module->named_parameters()) {
      for (const float g : p->grad().span<float>()) EXPECT_EQ(g, g);
      for (const float w : p->data.span<float>()) EXPECT_EQ(w, w);
    }
  }
  wrap(c.model.second, {});
  for (const Unit& unit : c.sharded.units()) unit.require_at_rest("looking");
}

TEST(Looking, ChangesNothing) {
  for_all_shardings([](CallerOptions options) {
    for (const bool no_sync : {false, true}) {
      options.no_sync = no_sync;
      const auto run = [&](bool looks) {
        return run_callers(options, [&](Caller& c) {
          for (int step = 0; step < 2; ++step) {
            if (looks) look(c);
            c.sharded.zero_grad();
            if (looks) look(c);
            if (step == 0) c.step();  // there is no gradient, even if a caller has asked for it
            if (looks) look(c);
            c.pass(false);
            if (looks) look(c);
            c.pass();
            if (looks) look(c);
            c.step();
          }
          EXPECT_EQ(names(c.sharded), kNames);
          return c.weights();
        });
      };
      EXPECT_EQ(run(true), run(false));
    }
  });
}

// If a model was read from inside before it is sharded, it still gets its names. A submodule that
// is sharded by itself keeps its names, even if a caller reads the model around it.
TEST(Looking, RenamesNoParameterOfAShardedModel) {
  run_callers(
      {}, [](Caller& c) { EXPECT_EQ(names(c.sharded), kNames); },
      [](Model& model) {
        model.second.named_parameters();
        model.named_parameters();
        model.first.linear.named_parameters();
      });
  testing::run_ranks(
      testing::Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        Model model;
        model.named_parameters();
        comm::Mesh mesh(std::move(world));
        ShardedModel part(context, model.first, mesh, {});
        model.named_parameters();
        EXPECT_EQ(names(part), (std::vector<std::string>{"linear.weight", "linear.bias"}));
        EXPECT_EQ(model.second.linear.named_parameters()[0]->name, "second.linear.weight");
        testing::expect_error<Error>([&] { ShardedModel all(context, model, mesh, {}); },
                                     "linear.weight");
        EXPECT_TRUE(model.first.linear.own_parameters()[0].second->sharded);
      });
}

TEST(GradNorm, IsAnErrorBeforeTheFirstClip) {
  run_callers({}, [](Caller& c) {
    testing::expect_error<Error>([&] { c.sharded.grad_norm(); }, "clip");
    c.sharded.clip(0);
    EXPECT_EQ(c.norm(), 0);
  });
}

// Hooks that were added before and after sharding are called once in a pass, in their order. They
// run outside the library's hooks, which show whole parameters only to the code inside.
TEST(Hooks, OfAUserRunOutsideTheLibrarysInTheOrderInWhichTheyWereAdded) {
  for_all_shardings([](const CallerOptions& options) {
    const bool discards = sharding_of(options.strategy).reshards_after_forward;
    std::vector<std::string> seen(4);
    const auto add = [&](nn::Module& module, const std::string& name) {
      nn::Module::Hooks& hooks = module.hooks;
      const auto note = [&seen, &module, name, discards](const std::string& point) {
        return [&seen, &module, name, point, discards](nn::Tape&) {
          const nn::Parameter& weight = *module.named_parameters()[0];
          if (discards) {
            EXPECT_LT(weight.data.numel(), weight.shape.numel());
          }
          seen[0] += point + name + " ";
        };
      };
      return std::vector<int>{hooks.pre_forward.add(note("f")), hooks.post_forward.add(note("F")),
                              hooks.pre_backward.add(note("b")),
                              hooks.post_backward.add(note("B"))};
    };
    testing::run_ranks(testing::Backend::local, sharding_of(options.strategy).replicates ? 4 : 2,
                       [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                         Caller c(context, std::move(world), options, [&](Model& model) {
                           if (context.rank == 0) add(model.first, "1");
                         });
                         if (context.rank == 0) {
                           const std::vector<int> handles = add(c.model.first, "2");
                           add(c.model.first, "3");
                           c.model.first.hooks.post_forward.remove(handles[1]);
                           c.model.first.hooks.post_forward.remove(handles[1]);  // is removed
                         }
                         c.sharded.zero_grad();
                         c.pass();
                         if (context.rank == 0) {
                           EXPECT_EQ(seen[0], "f1 f2 f3 F1 F3 b1 b2 b3 B1 B2 B3 ");
                         }
                         c.step();
                       });
  });
}

// A module that is not a unit keeps its hooks, and so does the root, also after the sharded model
// is destroyed.
TEST(Hooks, OfAUserOutliveTheShardedModel) {
  testing::run_ranks(
      testing::Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        Model model;
        comm::Mesh mesh(std::move(world));
        int calls = 0;
        const auto count = [&](nn::Tape&) { ++calls; };
        model.hooks.post_forward = count;
        model.first.linear.hooks = {.pre_forward = count, .post_backward = count};
        const auto pass = [&](int expected) {
          ShardedModel sharded(context, model, mesh, {.wrap_policy = is_a<testing::CallerLayer>});
          testing::store_random(sharded, 1);
          testing::Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 1);
          nn::Tape tape(context);
          tape.begin(true);
          sharded.backward(tape, sharded.forward(tape, x));
          EXPECT_EQ(calls, expected);
        };
        pass(3);
        EXPECT_FALSE(model.innermost.pre_forward);
        EXPECT_FALSE(model.first.innermost.pre_forward);
        pass(6);
      });
}

// A hook that removes itself, or adds another one, does not disturb the other hooks of the same
// call.
TEST(Hooks, MayChangeTheirOwnList) {
  run_callers({}, [](Caller& c) {
    nn::HookList& list = c.model.second.hooks.pre_backward;
    std::string calls;
    int first = -1;
    first = list.add([&](nn::Tape&) {
      calls += "a";
      list.remove(first);
      list.add([&](nn::Tape&) { calls += "c"; });
    });
    list.add([&](nn::Tape&) { calls += "b"; });
    c.pass();
    c.sharded.zero_grad();
    c.pass();
    EXPECT_EQ(calls, "abbc");
    list = {};
  });
}

// Between uses every parameter shows the piece that this rank keeps, also frozen ones, after any
// kind of gather.
TEST(Views, AreOfTheShardBetweenUses) {
  for_all_shardings([](CallerOptions options) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      options.precision.param_dtype = dtype;
      run_callers(
          options,
          [](Caller& c) {
            const auto shown = [&] {
              std::vector<const void*> all;
              for (const nn::Parameter* p : c.model.named_parameters()) {
                all.push_back(p->data.raw());
              }
              return all;
            };
            const auto at_first = shown();
            c.evaluate();
            EXPECT_EQ(shown(), at_first) << "after an evaluation";
            c.weights();
            EXPECT_EQ(shown(), at_first) << "after a look";
            c.pass();
            c.step();
            EXPECT_EQ(shown(), at_first) << "after a step";
            for (Unit& unit : c.sharded.units()) {
              unit.unshard();
              unit.wait_until_unsharded();
              unit.end_of_use(/*keep=*/false);
            }
            EXPECT_EQ(shown(), at_first) << "after an unshard of its own";
          },
          [](Model& model) {
            model.named_parameters()[1]->requires_grad = false;
            model.named_parameters()[2]->requires_grad = false;
            model.named_parameters()[2]->dtype = DType::bfloat16;
          });
    }
  });
}

// After the sharded model is destroyed, a parameter shows none of its memory.
TEST(ShardedModel, LeavesNoViewOfItsMemory) {
  for_all_shardings([](const CallerOptions& options) {
    testing::run_ranks(
        testing::Backend::local, sharding_of(options.strategy).replicates ? 4 : 2,
        [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          Model model;
          comm::Mesh mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0);
          const std::vector<nn::Parameter*> parameters = model.named_parameters();
          parameters[0]->requires_grad = false;
          {
            ShardedModel sharded(context, model, mesh,
                                 {.strategy = options.strategy, .layout = options.layout});
            testing::store_random(sharded, 1);
          }
          for (const nn::Parameter* p : parameters) {
            EXPECT_EQ(p->data.raw(), nullptr) << p->name;
            EXPECT_EQ(p->grad().raw(), nullptr) << p->name;
            EXPECT_FALSE(p->has_grad || p->sharded) << p->name;
          }
        });
  });
}

// The constructor throws in the second unit here. Then the views of the first unit are empty, and
// the model can be sharded after its error is corrected.
TEST(ShardedModel, LeavesNothingBehindWhenItCannotBeMade) {
  testing::run_ranks(
      testing::Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        Model model;
        comm::Mesh mesh(std::move(world));
        const Options options{.wrap_policy = is_a<testing::CallerLayer>};
        const std::vector<nn::Parameter*> parameters = model.named_parameters();
        parameters[3]->dtype = DType::bfloat16;  // this parameter trains, so bfloat16 is refused
        testing::expect_error<Error>([&] { ShardedModel s(context, model, mesh, options); },
                                     "second.linear.bias");
        for (const nn::Parameter* p : parameters) {
          EXPECT_FALSE(p->sharded) << p->name;
          EXPECT_EQ(p->data.raw(), nullptr) << p->name;
          EXPECT_EQ(p->grad().raw(), nullptr) << p->name;
        }
        EXPECT_EQ(context.ledger.count(MemoryClass::parameter_shards).in_use, 0);
        parameters[3]->dtype = DType::float32;
        ShardedModel sharded(context, model, mesh, options);
        testing::store_random(sharded, 1);
        EXPECT_EQ(testing::whole_weights(sharded).size(), 60u);
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp::looking_test
