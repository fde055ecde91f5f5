#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/plain_models.h"
#include "support/ranks.h"

// AdamW with groups of parameters, chosen by their names, beside torch.optim.AdamW with
// param_groups in PyTorch 2.15 (groups.py).

namespace nanofsdp::groups_test {
namespace {

class Model final : public nn::Module {
 public:
  Model() { add("a", a_), add("head", head_); }

 private:
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  nn::Linear a_{{.in = 4, .out = 3, .bias = true}};
  nn::Linear head_{{.in = 4, .out = 2, .bias = false}};
};

// The values after three steps: those of a.weight, a.bias and head.weight.
const std::vector<float> kGolden = {
    0.132778183f, 0.235837892f, 0.354706585f, 0.514402747f, 0.615203917f, 0.742884755f,
    0.893777788f, 0.994173586f, 1.12112844f,  0.149443433f, 0.22674267f,  0.382028908f,
    0.749951661f, 0.877484739f, 0.997746289f, 0.235865384f, 0.410807341f, 0.485565037f,
    0.612654805f, 0.785926938f, 0.814620674f, 0.998187363f, 1.07826412f};

fsdp::ParameterGroup group_of(const nn::Parameter& parameter) {
  if (parameter.name.starts_with("head")) return {.lr_factor = 2, .weight_decay = 0.3};
  if (parameter.name.ends_with("bias")) return {.lr_factor = 0.1};
  return {.weight_decay = 0.1};
}

// The numbers of groups.py: the first values, and the gradients of a step.
float start(std::int64_t i, std::int64_t parameter) {
  return static_cast<float>((i + 5 * parameter) % 9 + 1) / 8;
}
float gradient(std::int64_t i, std::int64_t parameter, int step) {
  return static_cast<float>((7 * i + 3 * step + parameter) % 11 - 5) / 8;
}

std::vector<float> trained(int ranks, fsdp::ShardingStrategy strategy, fsdp::LayoutKind layout) {
  const auto body = [=](Context& context, std::unique_ptr<comm::Communicator> world) {
    Model model;
    comm::Mesh mesh(std::move(world), fsdp::sharding_of(strategy).replicates ? 2 : 0);
    fsdp::ShardedModel sharded(context, model, mesh, {.strategy = strategy, .layout = layout});
    fsdp::ShardedParameters& row = sharded.units()[0].rows()[0];
    const std::size_t parameters = row.parameters().size();
    for (std::size_t p = 0; p < parameters; ++p) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < row.parameters()[p]->shape.numel(); ++i) {
        values.push_back(start(i, static_cast<std::int64_t>(p)));
      }
      row.store(p, values);
    }
    fsdp::AdamW optimizer(context, sharded.units(), {.group = group_of});
    for (int step = 1; step <= 3; ++step) {
      for (std::size_t p = 0; p < parameters; ++p) {
        const fsdp::Piece piece = row.owned(p);
        for (std::int64_t i = 0; i < piece.in_shard.size(); ++i) {
          row.gradient_shard().f32()[piece.in_shard.begin + i] =
              gradient(piece.in_parameter.begin + i, static_cast<std::int64_t>(p), step);
        }
      }
      row.set_reduced(true);
      optimizer.step(0.01);
    }
    return testing::whole_weights(sharded);
  };
  const auto backend = ranks == 1 ? testing::Backend::self : testing::Backend::local;
  return testing::run_ranks(backend, ranks, body)[0];
}

// The digits are PyTorch's, and the bits do not depend on ranks, strategy or layout.
TEST(ParameterGroups, StepAsInPyTorch) {
  const std::vector<float> alone =
      trained(1, fsdp::ShardingStrategy::full_shard, fsdp::LayoutKind::flat);
  ASSERT_EQ(alone.size(), kGolden.size());
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], kGolden[i], 2e-7) << i;
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    for (const auto layout :
         {fsdp::LayoutKind::flat, fsdp::LayoutKind::per_parameter, fsdp::LayoutKind::row_aligned}) {
      for (const int ranks : {2, 3, 4}) {
        if (sharding.replicates && ranks % 2 != 0) continue;
        EXPECT_EQ(trained(ranks, sharding.strategy, layout), alone)
            << sharding.name << " on " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::groups_test
