#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::fsdp::several_models_test {
namespace {

using testing::Backend;
using testing::Owned;

constexpr std::int64_t kWidth = 5;

class Layer final : public nn::Module {
 public:
  Layer() { add("linear", linear_); }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return linear_.forward(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return linear_.backward(tape, dy); }
  nn::Linear linear_{{.in = kWidth, .out = kWidth, .bias = true}};
};

using Both = testing::InTurn<Layer>;

void store(Unit& unit, std::uint64_t seed) {
  ShardedParameters& row = unit.rows()[0];
  row.store(0, testing::random_tensor({kWidth, kWidth}, seed).values);
  row.store(1, testing::random_tensor({kWidth}, seed + 1).values);
}

std::vector<float> gradients(const Unit& first, const Unit& second) {
  std::vector<float> all;
  for (const Unit* unit : {&first, &second}) {
    const std::span<float> shard = unit->rows()[0].gradient_shard().span<float>();
    all.insert(all.end(), shard.begin(), shard.end());
  }
  return all;
}

Options options_of(ShardingStrategy strategy) {
  return {.strategy = strategy, .poison = true, .wrap_policy = is_a<Layer>};
}

// Two sharded models that run one after the other on one tape have the gradients of one model with
// two units.
TEST(SeveralModels, OnOneTapeAreAsOne) {
  for (const Sharding& sharding : kShardings) {
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          comm::Mesh mesh(world->split(0)), first_mesh(world->split(0)),
              second_mesh(std::move(world));
          Both both, apart;
          ShardedModel one(context, both, mesh, options_of(sharding.strategy));
          ShardedModel first(context, apart.first, first_mesh, options_of(sharding.strategy));
          ShardedModel second(context, apart.second, second_mesh, options_of(sharding.strategy));
          store(one.units()[0], 1), store(first.units()[0], 1);
          store(one.units()[1], 3), store(second.units()[0], 3);
          nn::Tape tape(context);
          for (int micro_step = 0; micro_step < 3; ++micro_step) {
            const bool last = micro_step != 1;
            Owned<float> x = testing::random_tensor({2, kWidth}, 10 + context.rank);
            Owned<float> dy = testing::random_tensor({2, kWidth}, 20 + context.rank), again = dy;
            if (micro_step != 2) one.zero_grad(), first.zero_grad(), second.zero_grad();
            tape.begin(true);
            one.forward(tape, x);
            one.backward(tape, dy, last);
            tape.begin(true);
            second.forward(tape, first.forward(tape, x));
            const LastMicroStep of_first(first, last), of_second(second, last);
            apart.first.backward(tape, apart.second.backward(tape, again));
            tape.end_backward();
            EXPECT_EQ(gradients(first.units()[0], second.units()[0]),
                      gradients(one.units()[0], one.units()[1]))
                << sharding.name;
          }
        });
  }
}

// A tape outlives a sharded model, and may be in use when the model is destroyed.
TEST(SeveralModels, LeaveNothingOnTheTape) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Both model;
        nn::Tape tape(context);
        Owned<float> x = testing::random_tensor({2, kWidth}, 1);
        for (int i = 0; i < 2; ++i) {
          ShardedModel sharded(context, model, mesh, options_of(ShardingStrategy::full_shard));
          store(sharded.units()[0], 1), store(sharded.units()[1], 3);
          tape.begin(true);
          sharded.forward(tape, x);
          if (i == 0) tape.end();
        }
        tape.end();
        EXPECT_FALSE(model.first.innermost.pre_forward);
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp::several_models_test
