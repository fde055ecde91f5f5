#include "fsdp/unit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fsdp/buffer_pool.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tensors.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::expect_error;
using testing::TinyTraining;

TEST(BufferPool, LendsEachSlotToOneUnitAtATime) {
  Context context;
  BufferPool pool(context, MemoryClass::unsharded_parameters, 2, 8);
  BufferPool::Slot& first = pool.acquire();
  BufferPool::Slot& second = pool.acquire();
  EXPECT_NE(first.memory.raw(), second.memory.raw());
  EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_parameters).in_use, 64);
  EXPECT_FALSE(pool.has_free_slot());
  pool.release(second, Event());
  EXPECT_EQ(pool.acquire().memory.raw(), second.memory.raw());
}

// A pass that needs more slots gets them until it is over.
TEST(BufferPool, LendsMoreThanPlannedUntilItShrinks) {
  Context context;
  BufferPool pool(context, MemoryClass::unsharded_parameters, 2, 8);
  const auto bytes = [&] { return context.ledger.count(MemoryClass::unsharded_parameters); };
  std::vector<BufferPool::Slot*> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(&pool.acquire());
  EXPECT_EQ(bytes().reserved, 5 * 32);
  pool.shrink();
  EXPECT_EQ(bytes().reserved, 5 * 32) << "all are held";
  for (BufferPool::Slot* slot : slots) pool.release(*slot, Event());
  pool.shrink();
  EXPECT_EQ(bytes().reserved, 2 * 32);
  EXPECT_EQ(bytes().in_use, 0);
  EXPECT_EQ(&pool.acquire(), slots[0]);
}

TEST(BufferPool, KeepsAsManySlotsAsTheLastPlanSays) {
  Context context;
  BufferPool pool(context, MemoryClass::unsharded_parameters, 2, 8);
  for (const int slots : {5, 1, 3, 0}) {
    pool.plan(slots);
    pool.shrink();
    EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_parameters).reserved, slots * 32);
  }
}

// The slot that has been free for the longest time most likely has no reader any more. Units give
// their slots back in the order in which they took them.
TEST(BufferPool, LendsTheSlotThatHasBeenFreeLongest) {
  std::mt19937 random(1);
  for (int slots = 2; slots <= 5; ++slots) {
    Context context;
    BufferPool pool(context, MemoryClass::unsharded_parameters, slots, 8);
    std::deque<BufferPool::Slot*> held, free;  // the slot that has been free longest comes first
    for (int i = 0; i < slots; ++i) held.push_back(&pool.acquire());
    for (int i = 0; i < 100; ++i) {
      if (free.empty() || (!held.empty() && random() % 2 == 0)) {
        pool.release(*held.front(), Event());
        free.push_back(held.front());
        held.pop_front();
      } else {
        ASSERT_EQ(&pool.acquire(), free.front()) << i << " of " << slots << " slots";
        held.push_back(free.front());
        free.pop_front();
      }
    }
  }
}

// A caller that takes a slot gets the event after which the last reader is done.
TEST(BufferPool, HandsOnWhenASlotIsFree) {
  Context context;
  BufferPool pool(context, MemoryClass::unsharded_parameters, 1, 8);
  std::atomic<bool> may_finish = false;
  context.gather->enqueue([&] {
    while (!may_finish) std::this_thread::yield();
  });
  pool.release(pool.acquire(), context.gather->record());
  const BufferPool::Slot& slot = pool.acquire();
  EXPECT_FALSE(slot.free.ready());
  may_finish = true;
  slot.free.synchronize();
  EXPECT_TRUE(slot.free.ready());
}

TEST(Unit, RefusesStepsOutOfOrder) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(context, std::move(group), {});
        Unit& unit = training.sharded.units()[0];
        expect_error<Error>([&] { unit.reshard(); }, "expected unsharded, got sharded");
        expect_error<Error>([&] { unit.wait_until_unsharded(); },
                            "expected gathering, got sharded");
        unit.unshard();
        unit.unshard();  // a second call does nothing
        EXPECT_EQ(unit.state(), Unit::State::gathering);
        unit.wait_until_unsharded();
        unit.take_gradients();
        expect_error<Error>([&] { unit.reduce_gradients(true); }, "got unsharded");
        expect_error<Error>([&] { training.optimizer.step(1e-3, {}); },
                            "expected sharded, with no backward to come, got unsharded");
        expect_error<Error>([&] { training.sharded.zero_grad(); }, unit.name());
        unit.reshard();
        EXPECT_EQ(unit.state(), Unit::State::sharded);
        unit.drop_gradients();
      });
}

// At rest a parameter shows the piece that this rank keeps, and no borrowed memory: after a step,
// and after a look at whole parameters.
TEST(Unit, ShowsItsPiecesOfTheShardAtRest) {
  const auto test = [](DType dtype) {
    testing::run_ranks(Backend::local, 2,
                       [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                         TinyTraining training(context, std::move(group), {.precision = {dtype}});
                         training.step(0);
                         training.weights();
                         for (Unit& unit : training.sharded.units()) {
                           const ShardedParameters& flat = unit.rows()[0];
                           for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
                             const Range at = flat.layout().piece(i, context.rank).in_shard;
                             const nn::Parameter& p = *flat.parameters()[i];
                             EXPECT_EQ(p.data.numel(), at.size()) << p.name;
                             EXPECT_EQ(p.data.raw(), flat.parameter_storage().f32() + at.begin);
                             EXPECT_EQ(p.grad().f32(), flat.gradient_storage().f32() + at.begin);
                           }
                         }
                       });
  };
  for (const DType dtype : {DType::float32, DType::bfloat16}) test(dtype);
}

// A shard is the rank's own chunk of the row, whatever the rank stores. If nothing is sharded, it
// is the whole row.
TEST(ShardedParameters, HasItsOwnChunkOfWhatIsStored) {
  for (const Sharding& sharding : kShardings) {
    testing::run_ranks(
        Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group), {.strategy = sharding.strategy});
          for (const ShardedParameters* row : training.sharded.rows()) {
            const Layout& layout = row->layout();
            const std::int64_t n = sharding.optimizer ? layout.shard_numel() : layout.whole_numel();
            const std::int64_t begin = sharding.optimizer ? context.rank * n : 0;
            const std::int64_t p = sharding.parameters ? 0 : begin;
            const std::int64_t g = sharding.gradients ? 0 : begin;
            EXPECT_EQ(row->parameter_shard().f32(), row->parameter_storage().f32() + p);
            EXPECT_EQ(row->gradient_shard().f32(), row->gradient_storage().f32() + g);
            EXPECT_EQ(row->parameter_shard().numel(), n);
          }
        });
  }
}

// A copy that units keep becomes stale with every write of the shard, not only with the
// optimizer's.
TEST(Unit, GathersAnewWhatWasStoredSince) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(
            context, std::move(group),
            {.strategy = ShardingStrategy::shard_gradients, .precision = {DType::bfloat16}});
        Unit& unit = training.sharded.units()[0];
        ShardedParameters& flat = unit.rows()[0];
        const auto first_parameter = [&] {
          unit.unshard();
          unit.wait_until_unsharded();
          const std::span<float> values = flat.parameters()[0]->data.span<float>();
          std::vector<float> copy(values.begin(), values.end());
          unit.reshard();
          return copy;
        };
        const std::vector<float> threes(first_parameter().size(), 3);
        flat.store(0, threes);
        EXPECT_EQ(first_parameter(), threes);
      });
}

// A look at the parameters shows the master weights, and units compute in bfloat16, in whichever
// order they come.
TEST(Unit, KeepsRoundedAndFullCopiesApart) {
  const auto run = [](ShardingStrategy strategy, bool look) {
    return testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining training(context, std::move(group),
                                {.strategy = strategy, .precision = {DType::bfloat16}});
          if (look) {
            const std::vector<float> before = training.weights();
            auto tokens = testing::tiny_tokens(0, 0, 0, 1, 0);
            training.tape.begin(false);
            training.sharded.forward(training.tape, tokens);
            training.tape.end();
            EXPECT_EQ(training.weights(), before) << name_of(strategy);
          }
          training.step(0);
          return training.weights();
        });
  };
  for (ShardingStrategy strategy : {ShardingStrategy::no_shard, ShardingStrategy::shard_gradients,
                                    ShardingStrategy::full_shard}) {
    EXPECT_EQ(run(strategy, true), run(strategy, false)) << name_of(strategy);
  }
}

TEST(ShardedModel, RefusesAModelThatIsShardedAlready) {
  testing::run_ranks(
      Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(context, std::move(group), {});
        expect_error<Error>(
            [&] {
              ShardedModel again(context, training.model, training.mesh,
                                 {.wrap_policy = [](const nn::Module&) { return false; }});
            },
            "shard once, by one wrap_policy");
      });
}

// When the sharded model is destroyed, its hooks are removed: the model can be sharded again, and
// trains as before.
TEST(ShardedModel, LeavesItsModelAsItWas) {
  for (ShardingStrategy strategy : {ShardingStrategy::no_shard, ShardingStrategy::full_shard}) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          auto twin = group->split(0);
          std::unique_ptr<gpt::GPT> model;
          std::vector<float> first;
          {
            TinyTraining training(context, std::move(group), {.strategy = strategy});
            first = training.run();
            model = std::move(training.own_model);
          }
          for (const auto& block : model->blocks()) EXPECT_FALSE(block->innermost.pre_forward);
          TinyTraining again(context, std::move(twin), {.strategy = strategy}, std::move(model));
          EXPECT_EQ(again.run(), first) << name_of(strategy);
        });
  }
}

// If a rank fails between two collectives, the other ranks end with an error and do not hang.
TEST(ShardedModel, EndsWhenARankFails) {
  EXPECT_THROW(testing::run_ranks(Backend::local, 2,
                                  [](Context& context, std::unique_ptr<comm::Communicator> group) {
                                    TinyTraining training(context, std::move(group), {});
                                    training.step(0);
                                    if (context.rank == 1) throw std::runtime_error("lost");
                                    training.step(1);
                                  }),
               testing::RankError);
}

// A rank that fails ends its own collectives in flight, and does not wait for their timeout.
TEST(ShardedModel, WaitsForNoGatherWhenItsRankFails) {
  std::promise<void> gone;
  const auto test = [&](Context& context, std::unique_ptr<comm::Communicator> group) {
    const std::shared_ptr<void> says(nullptr, [&](void*) {
      if (context.rank == 1) gone.set_value();
    });
    TinyTraining training(context, std::move(group), {});
    if (context.rank == 1) {
      training.sharded.units()[0].unshard();
      throw std::runtime_error("lost");
    }
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  };
  EXPECT_THROW(testing::run_ranks(Backend::local, 2, test), testing::RankError);
}

}  // namespace
}  // namespace nanofsdp::fsdp
