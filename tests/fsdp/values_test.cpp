#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/deferred_init.h"
#include "support/caller.h"
#include "support/errors.h"

// Tests that every parameter has a first value, and that all ranks have the same one.

namespace nanofsdp::fsdp::values_test {
namespace {

using testing::Backend;
using testing::CallerOptions;
using testing::expect_error;
using testing::for_all_shardings;
using testing::Owned;

using Model = testing::InTurn<testing::CallerLayer>;

// A model that has no values yet. One bias is frozen.
struct Rank {
  Rank(Context& context, std::unique_ptr<comm::Communicator> world, const CallerOptions& options)
      : context(context),
        mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0),
        options(options) {
    model.named_parameters()[1]->requires_grad = false;
  }

  // Memory for values of parameter `i`, which the model has before it is sharded.
  std::vector<float>& give(std::size_t i, float value) {
    nn::Parameter& p = *model.named_parameters()[i];
    memory[i].assign(static_cast<std::size_t>(p.shape.numel()), value);
    p.data = Tensor(memory[i].data(), p.shape);
    return memory[i];
  }

  void shard(bool sync_module_states = false) {
    sharded.emplace(context, model, mesh,
                    Options{.strategy = options.strategy,
                            .layout = options.layout,
                            .poison = true,
                            .sync_module_states = sync_module_states,
                            .wrap_policy = is_a<testing::CallerLayer>});
  }

  void evaluate() {
    Owned<float> x = testing::random_tensor({1, testing::kCallerWidth}, 9);
    tape.begin(false);
    sharded->forward(tape, x);
    tape.end();
  }

  Context& context;
  comm::Mesh mesh;
  CallerOptions options;
  Model model;
  std::vector<std::vector<float>> memory = std::vector<std::vector<float>>(4);
  std::optional<ShardedModel> sharded;
  nn::Tape tape{context};
};

template <class Body>
void on_ranks(const CallerOptions& options, const Body& body) {
  testing::run_ranks(Backend::local, sharding_of(options.strategy).replicates ? 4 : 2,
                     [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                       Rank rank(context, std::move(world), options);
                       body(rank);
                     });
}

// One parameter without values is enough for an error, which names it and no other.
TEST(FirstValues, AreMissedByName) {
  for_all_shardings([](const CallerOptions& options) {
    for (std::size_t without = 0; without < 4; ++without) {
      on_ranks(options, [&](Rank& rank) {
        for (std::size_t i = 0; i < 4; ++i) {
          if (i != without) rank.give(i, 1);
        }
        rank.shard();
        AdamW optimizer(rank.context, rank.sharded->units(), {});
        optimizer.step(0.1);  // writes no values
        const std::vector<nn::Parameter*> parameters = rank.model.named_parameters();
        try {
          rank.evaluate();
          ADD_FAILURE() << parameters[without]->name;
        } catch (const Error& error) {
          const std::string what = error.what();
          for (std::size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(what.find(parameters[i]->name) != what.npos, i == without) << what;
          }
        }
        rank.tape.end();
        expect_error<Error>([&] { testing::whole_weights(*rank.sharded); },
                            parameters[without]->name);
        Generator generator(1);
        deferred_init(rank.context, rank.sharded->units(), generator);
        rank.evaluate();
      });
    }
  });
}

// Computes with one layer or another, as the caller says.
struct One final : nn::Module {
  One() {
    add("first", first);
    add("second", second);
  }
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return used->forward(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return used->backward(tape, dy); }
  testing::CallerLayer first, second;
  nn::Module* used = &first;
};

// Steps that train one layer give no values to the other one.
TEST(FirstValues, OfWhatIsNotUsedAreStillMissedAfterAStep) {
  for_all_shardings([](const CallerOptions& options) {
    const int ranks = sharding_of(options.strategy).replicates ? 4 : 2;
    testing::run_ranks(Backend::local, ranks, [&](Context& context, auto world) {
      One model;
      comm::Mesh mesh(std::move(world), ranks == 4 ? 2 : 0);
      std::vector<float> memory(1000, 0.1F);
      for (nn::Parameter* p : model.first.named_parameters())
        p->data = Tensor(memory.data(), p->shape);
      ShardedModel sharded(context, model, mesh,
                           {.strategy = options.strategy,
                            .layout = options.layout,
                            .wrap_policy = is_a<testing::CallerLayer>});
      AdamW optimizer(context, sharded.units(), {});
      nn::Tape tape(context);
      Owned<float> x = testing::random_tensor({1, testing::kCallerWidth}, 9);
      for (int step = 0; step < 2; ++step) {
        tape.begin(true);
        sharded.forward(tape, x);
        model.backward(tape, x);
        tape.end_backward();
        optimizer.step(0.1);
        sharded.zero_grad();
      }
      model.used = &model.second;
      tape.begin(false);
      expect_error<Error>([&] { sharded.forward(tape, x); },
                          "no values of second.linear.weight second.linear.bias");
      tape.end();
      expect_error<Error>([&] { testing::whole_weights(sharded); }, "second.linear.weight");
    });
  });
}

// Values of another shape are not those of the parameter, even if their number is the same. They
// are refused before anything is sharded, so the caller can give others.
TEST(FirstValues, HaveTheShapeOfTheirParameter) {
  on_ranks({}, [](Rank& rank) {
    const std::vector<nn::Parameter*> parameters = rank.model.named_parameters();
    for (std::size_t i = 0; i < 4; ++i) rank.give(i, 0.1F);
    nn::Parameter& wrong = *parameters[2];
    const Tensor given = wrong.data;
    for (const Shape& shape : {Shape{3}, Shape{given.numel()}, Shape{1, given.numel()}}) {
      for (const bool sync : {false, true}) {
        wrong.data = Tensor(rank.memory[2].data(), shape);
        expect_error<ShapeError>([&] { rank.shard(sync); }, "values of " + wrong.name);
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_EQ(parameters[i]->data.raw(), rank.memory[i].data());
          EXPECT_FALSE(parameters[i]->sharded);
        }
      }
    }
    wrong.data = given;
    rank.shard();
    const std::vector<float> three(3);
    expect_error<ShapeError>([&] { rank.sharded->rows()[0]->store(0, three); }, "values of ");
    rank.evaluate();
  });
}

// Options that are refused leave a model as it was: with its values, which it can be sharded with.
TEST(FirstValues, StayWhereAnOptionIsRefused) {
  for (const bool sync : {false, true}) {
    on_ranks({}, [&](Rank& rank) {
      for (std::size_t i = 0; i < 4; ++i) rank.give(i, 0.1F);
      const auto refused = [&](const nn::Module& module) {
        UnitOptions unit = is_a<testing::CallerLayer>(module);
        if (unit.is_unit && &module != rank.model.children()[0].second)
          unit.precision = MixedPrecision{.reduce_dtype = DType::float8_e4m3};
        return unit;
      };
      const Options options{.sync_module_states = sync, .wrap_policy = refused};
      EXPECT_THROW(ShardedModel(rank.context, rank.model, rank.mesh, options), UsageError);
      const std::vector<nn::Parameter*> parameters = rank.model.named_parameters();
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(parameters[i]->data.raw(), rank.memory[i].data());
        EXPECT_FALSE(parameters[i]->sharded);
      }
      rank.shard();
      rank.evaluate();
    });
  }
}

// This is FSDP1's use: rank 0 has loaded the weights, and the others have shapes. Frozen parameters
// are sent, too.
TEST(SyncModuleStates, GivesEveryRankTheValuesOfRank0) {
  for_all_shardings([](const CallerOptions& options) {
    for (const bool others_have_values : {false, true}) {
      on_ranks(options, [&](Rank& rank) {
        const bool first = rank.context.rank == 0;
        for (std::size_t i = 0; i < 4; ++i) {
          if (first || others_have_values) rank.give(i, (first ? 1.0F : -7.0F) + float(i));
        }
        rank.shard(/*sync_module_states=*/true);
        EXPECT_EQ(rank.context.ledger.count(MemoryClass::unsharded_parameters).in_use, 0);
        rank.sharded->summon_full_parameters([&](const nn::Parameter& p) {
          const auto all = rank.model.named_parameters();
          const auto i = std::ranges::find(all, &p) - all.begin();
          for (const float w : p.data.span<float>()) EXPECT_EQ(w, 1.0F + float(i)) << p.name;
        });
        rank.evaluate();
      });
    }
  });
}

// If rank 0 has no value for a parameter, the value of another rank does not count.
TEST(SyncModuleStates, LeavesOutWhatRank0HasNot) {
  on_ranks({}, [](Rank& rank) {
    for (std::size_t i = 0; i < 3; ++i) rank.give(i, 1);
    if (rank.context.rank != 0) rank.give(3, 1);
    rank.shard(/*sync_module_states=*/true);
    expect_error<Error>([&] { rank.evaluate(); }, "no values of second.linear.bias");
    rank.tape.end();
  });
}

// With two seeds, the ranks would train a mixture of two models, with pieces of each.
TEST(FirstValues, OfOtherSeedsAreRefused) {
  for_all_shardings([](const CallerOptions& options) {
    for (const bool looks : {false, true}) {
      on_ranks(options, [&](Rank& rank) {
        rank.shard();
        Generator generator(1 + rank.context.rank);
        deferred_init(rank.context, rank.sharded->units(), generator);
        const auto use = [&] {
          looks ? void(testing::whole_weights(*rank.sharded)) : rank.evaluate();
        };
        expect_error<comm::CommError>(use, "values");
        rank.tape.end();
      });
    }
  });
}

// One element of one parameter is enough, also if the parameter is frozen.
TEST(FirstValues, ThatDifferInOneElementAreRefused) {
  for (std::size_t parameter = 0; parameter < 4; ++parameter) {
    for (const bool last : {false, true}) {
      on_ranks({}, [&](Rank& rank) {
        for (std::size_t i = 0; i < 4; ++i) {
          std::vector<float>& values = rank.give(i, 1);
          if (i == parameter && rank.context.rank == 1) {
            (last ? values.back() : values.front()) = 1 + 0x1p-23F;
          }
        }
        rank.shard();
        expect_error<comm::CommError>([&] { rank.evaluate(); }, "sync_module_states");
        rank.tape.end();
      });
    }
  }
}

// The values are compared once: later passes send no control traffic for it.
TEST(FirstValues, AreComparedOnce) {
  on_ranks({.strategy = ShardingStrategy::no_shard}, [](Rank& rank) {
    for (std::size_t i = 0; i < 4; ++i) rank.give(i, 1);
    rank.shard();
    rank.evaluate();
    const comm::Traffic before = rank.mesh.traffic();
    for (int i = 0; i < 3; ++i) rank.evaluate();
    EXPECT_EQ(rank.mesh.traffic(), before);
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::values_test
