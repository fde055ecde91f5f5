#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/closed_formula.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::fsdp {
namespace {

constexpr std::int64_t kWidth = 6;

// A layer around any modules that it is given. Its bias is frozen.
class Around final : public nn::Module {
 public:
  explicit Around(std::vector<std::unique_ptr<nn::Module>> inner) : inner_(std::move(inner)) {
    add("layer", layer_);
    for (std::size_t i = 0; i < inner_.size(); ++i) add(std::to_string(i), *inner_[i]);
    layer_.own_parameters()[1].second->requires_grad = false;
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    x = layer_.forward(tape, x);
    for (const auto& module : inner_) x = module->forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (auto module = inner_.rbegin(); module != inner_.rend(); ++module) {
      dy = (*module)->backward(tape, dy);
    }
    return layer_.backward(tape, dy);
  }
  nn::Linear layer_{{.in = kWidth, .out = kWidth}};
  std::vector<std::unique_ptr<nn::Module>> inner_;
};

template <class... Inner>
std::unique_ptr<nn::Module> around(Inner... inner) {
  std::vector<std::unique_ptr<nn::Module>> modules;
  (modules.push_back(std::move(inner)), ...);
  return std::make_unique<Around>(std::move(modules));
}

// The memory and traffic of a rank of two in its second step.
void expect_planned(Context& context, std::unique_ptr<comm::Communicator> world,
                    ShardingStrategy strategy, LayoutKind layout) {
  comm::Mesh mesh(std::move(world));
  const std::unique_ptr<nn::Module> model =
      around(around(around(around())), around(), around(around()));
  for (nn::Parameter* p : model->named_parameters()) {
    if (p->name.starts_with("1.")) p->requires_grad = false;  // all parameters of that unit
  }
  const Options options{.strategy = strategy, .layout = layout, .wrap_policy = is_a<Around>};
  ShardedModel sharded(context, *model, mesh, options);
  AdamW optimizer(context, sharded.units(), {});
  for (ShardedParameters* row : sharded.rows()) {
    for (std::size_t i = 0; i < row->parameters().size(); ++i) {
      const auto numel = static_cast<std::size_t>(row->parameters()[i]->shape.numel());
      row->store(i, std::vector<float>(numel, 0.5F));
    }
  }
  nn::Tape tape(context);
  testing::Owned<float> one({1}, 1.0F);
  for (int step = 0; step < 2; ++step) {
    auto x = testing::random_tensor({3, kWidth}, 1), dy = testing::random_tensor({3, kWidth}, 2);
    mesh.reset_traffic();
    sharded.zero_grad();
    tape.begin(true);
    sharded.forward(tape, x);
    sharded.backward(tape, dy);
    optimizer.step(1e-3, one);
  }
  const formula::Plan plan =
      formula::plan(formula::layouts_of(sharded.units()), options, {.shard_size = 2});
  for (const MemoryClass c : {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                              MemoryClass::optimizer, MemoryClass::unsharded_parameters,
                              MemoryClass::unsharded_gradients, MemoryClass::communication}) {
    EXPECT_EQ(context.ledger.count(c).reserved_peak, plan.of(c))
        << name_of(strategy) << " class " << static_cast<int>(c);
  }
  EXPECT_EQ(mesh.traffic().all_gathers, plan.step.all_gathers) << name_of(strategy);
  EXPECT_EQ(mesh.traffic().bytes_sent, plan.step.bytes_sent) << name_of(strategy);
}

// Promises 3 and 4 with units inside units and some frozen parameters: a pass borrows the planned
// memory, and parameters that no optimizer writes are gathered once if they can stay.
TEST(Plan, OfNestedUnitsAndFrozenParametersIsTheLedgers) {
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates) continue;
    for (const LayoutKind layout : testing::kLayouts) {
      testing::run_ranks(testing::Backend::local, 2,
                         [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                           expect_planned(context, std::move(world), sharding.strategy, layout);
                         });
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
