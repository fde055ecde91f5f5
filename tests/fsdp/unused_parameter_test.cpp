#include <gtest/gtest.h>

#include <vector>

#include "comm/mesh.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::fsdp::unused_parameter_test {
namespace {

using testing::Backend;
using testing::Owned;

constexpr std::int64_t kWidth = 5;

// Two layers. Some ranks leave out the second one.
class Optional final : public nn::Module {
 public:
  explicit Optional(bool whole) : whole_(whole) {
    add("first", first_);
    add("second", second_);
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    x = first_.forward(tape, x);
    return whole_ ? second_.forward(tape, x) : x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return first_.backward(tape, whole_ ? second_.backward(tape, dy) : dy);
  }
  bool whole_;
  nn::Linear first_{{.in = kWidth, .out = kWidth, .bias = false}};
  nn::Linear second_{{.in = kWidth, .out = kWidth, .bias = false}};
};

// The summed gradients of both layers, from the parts that the ranks store.
std::vector<float> gradients(ShardingStrategy strategy) {
  const auto ranks = testing::run_ranks(
      Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Optional model(/*whole=*/context.rank == 1);
        ShardedModel sharded(context, model, mesh,
                             {.strategy = strategy,
                              .reduction = comm::ReduceOp::sum,
                              .wrap_policy = [](const nn::Module&) { return false; }});
        Unit& unit = sharded.units()[0];
        for (std::size_t i = 0; i < 2; ++i) {
          unit.rows()[0].store(i, testing::random_tensor({kWidth, kWidth}, 1 + i).values);
        }
        nn::Tape tape(context);
        Owned<float> x = testing::random_tensor({2, kWidth}, 10 + context.rank);
        sharded.zero_grad();
        tape.begin(true);
        sharded.forward(tape, x);
        Owned<float> dy = testing::random_tensor({2, kWidth}, 20 + context.rank);
        sharded.backward(tape, dy);
        unit.require_at_rest("end of backward");
        const std::span<float> stored = unit.rows()[0].gradient_storage().span<float>();
        return std::vector<float>(stored.begin(), stored.end());
      });
  if (strategy == ShardingStrategy::no_shard) {
    for (const auto& rank : ranks) EXPECT_EQ(rank, ranks[0]);
    return ranks[0];
  }
  std::vector<float> all;
  for (const auto& rank : ranks) all.insert(all.end(), rank.begin(), rank.end());
  return all;
}

// Every rank calls the same collectives, and a gradient that only one rank has is not lost.
TEST(UnusedParameter, HasTheGradientOfTheRanksThatUseIt) {
  const std::vector<float> whole = gradients(ShardingStrategy::no_shard);
  EXPECT_EQ(gradients(ShardingStrategy::full_shard), whole);
  EXPECT_NE(whole[kWidth * kWidth + kWidth], 0) << "the second layer's";
}

}  // namespace
}  // namespace nanofsdp::fsdp::unused_parameter_test
