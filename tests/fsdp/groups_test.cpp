#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "support/closed_formula.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/tensors.h"

// Several modules form one unit.

namespace nanofsdp::fsdp::groups_test {
namespace {

using testing::Backend;
using testing::Owned;
using testing::random_tensor;

constexpr std::int64_t kWidth = 5;

using Layer = testing::LinearLayer<kWidth>;

// Calls those of its five layers that `order` names.
struct Stack final : nn::Module {
  Stack() {
    for (int i = 0; i < 5; ++i) add(std::to_string(i), layers[i]);
  }
  Layer layers[5];
  std::string order = "01234";

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const char c : order) x = layers[c - '0'].forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (auto c = order.rbegin(); c != order.rend(); ++c) {
      dy = layers[*c - '0'].backward(tape, dy);
    }
    return dy;
  }
};

// Each letter names the group of a layer; a dash means that the layer is a unit by itself.
WrapPolicy groups_of(const Stack& stack, const std::string& groups) {
  return [&stack, groups](const nn::Module& module) {
    UnitOptions unit = is_a<Layer>(module);
    if (!unit.is_unit) return unit;
    const char group = groups[static_cast<std::size_t>(
        std::ranges::find(stack.layers, &module, [](const Layer& layer) { return &layer; }) -
        stack.layers)];
    if (group != '-') unit.group = std::string("group ") + group;
    return unit;
  };
}

struct Training {
  ShardingStrategy strategy = ShardingStrategy::full_shard;
  LayoutKind layout = LayoutKind::flat;
  std::string groups = "-----";
  std::vector<std::string> orders = {"01234", "01234"};  // the layers that each pass calls
  bool evaluates = false;  // another tape evaluates between forward and backward
};

// The outputs and the weights of a rank that steps after each pass.
std::vector<float> train(Context& context, std::unique_ptr<comm::Communicator> world,
                         const Training& run) {
  comm::Mesh mesh(std::move(world), sharding_of(run.strategy).replicates ? 1 : 0);
  Stack model;
  const Options options{.strategy = run.strategy,
                        .layout = run.layout,
                        .poison = true,
                        .wrap_policy = groups_of(model, run.groups)};
  ShardedModel sharded(context, model, mesh, options);
  std::uint32_t seed = 1;
  for (nn::Parameter* p : model.named_parameters()) {
    const std::vector<float> values = random_tensor(p->shape, ++seed).values;
    for (ShardedParameters* row : sharded.rows()) {
      const auto at = std::ranges::find(row->parameters(), p) - row->parameters().begin();
      if (at < std::ssize(row->parameters())) row->store(static_cast<std::size_t>(at), values);
    }
  }
  AdamW optimizer(context, sharded.units(), {});
  nn::Tape tape(context), other(context);
  std::vector<float> seen;
  for (const std::string& order : run.orders) {
    model.order = order;
    Owned<float> x = random_tensor({2, kWidth}, ++seed + 100 * context.rank);
    Owned<float> dy = random_tensor({2, kWidth}, seed + 1000 + 100 * context.rank);
    sharded.zero_grad();
    tape.begin(true);
    const std::span<float> y = sharded.forward(tape, x).span<float>();
    seen.insert(seen.end(), y.begin(), y.end());
    if (run.evaluates) {
      other.begin(false);
      sharded.forward(other, x);
      other.end();
    }
    sharded.backward(tape, dy);
    optimizer.step(0.1, sharded.clip(0));
    for (const Unit& unit : sharded.units()) unit.require_at_rest("the end of a pass");
    const bool sharded_at_rest = sharding_of(sharded.strategy()).parameters;
    if (sharded_at_rest) {
      EXPECT_EQ(context.ledger.count(MemoryClass::unsharded_parameters).in_use, 0);
    }
  }
  std::map<std::string, std::vector<float>> weights;
  sharded.summon_full_parameters([&](const nn::Parameter& p) {
    const std::span<float> values = p.data.span<float>();
    weights[p.name].assign(values.begin(), values.end());
  });
  for (const auto& [name, values] : weights) seen.insert(seen.end(), values.begin(), values.end());
  return seen;
}

std::vector<std::vector<float>> records(int ranks, const Training& run) {
  return testing::run_ranks(Backend::local, ranks,
                            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                              return train(context, std::move(world), run);
                            });
}

// However modules are grouped, and whichever of them a pass uses, in whichever order and how often,
// there are the bits of modules that are units by themselves.
TEST(Groups, ChangeNoBit) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    for (const Sharding& sharding : kShardings) {
      for (const LayoutKind layout : {LayoutKind::flat, LayoutKind::per_parameter}) {
        for (const bool evaluates : {false, true}) {
          Training run{.strategy = sharding.strategy,
                       .layout = layout,
                       .orders = {"01234", "013", "4310", "012243", "2", "0123401234"},
                       .evaluates = evaluates};
          const auto expected = records(ranks, run);
          for (const std::string groups : {"---aa", "a---a", "aa-bb", "abab-", "aaaaa"}) {
            run.groups = groups;
            EXPECT_EQ(records(ranks, run), expected)
                << sharding.name << ", " << ranks << " ranks, " << groups;
          }
        }
      }
    }
  }
}

std::string order_of_a_step(const std::string& groups, const std::string& order) {
  std::string line;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Stack model;
        ShardedModel sharded(context, model, mesh,
                             {.forward_prefetch = 0, .wrap_policy = groups_of(model, groups)});
        testing::store_random(sharded, 1);
        model.order = order;
        nn::Tape tape(context);
        Owned<float> x({1, kWidth}), dy({1, kWidth});
        for (int step = 0; step < 2; ++step) {
          if (context.rank == 0) context.tracer.start();
          sharded.zero_grad();
          tape.begin(true);
          sharded.forward(tape, x);
          sharded.backward(tape, dy);
          if (context.rank > 0) continue;
          line.clear();
          for (const std::string& event : context.tracer.take_order()) line += event + " ";
        }
      });
  for (const std::string word = "group "; line.find(word) != std::string::npos;) {
    line.replace(line.find(word), word.size(), "");
  }
  return line;
}

// The first module gathers, and the last one reshards; in backward it is the reverse.
TEST(Groups, AreGatheredOnceInEachDirection) {
  EXPECT_EQ(order_of_a_step("---aa", "234"),
            "u.root U.2 F.2 R.2 U.a F.a u.a F.a R.a r.root "
            "u.root U.a u.a U.2 u.a u.2 R.a RS.a u.2 R.2 RS.2 r.root ");
}

// A pass that leaves the last module out reshards when the root's forward ends, and backward when
// the last module that the pass has used does.
TEST(Groups, AreReshardedInAPassThatLeavesModulesOut) {
  EXPECT_EQ(order_of_a_step("---aa", "32"),
            "u.root U.a F.a U.2 F.2 R.2 R.a r.root "
            "u.root U.a U.2 R.2 RS.2 u.a R.a RS.a r.root ");
  EXPECT_EQ(order_of_a_step("---aa", "42"),
            "u.root U.a F.a R.a U.2 F.2 R.2 r.root "
            "u.root U.2 u.2 U.a R.2 RS.2 u.a R.a RS.a r.root ");
}

TEST(Groups, HaveThePlannedMemoryAndTraffic) {
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates) continue;
    for (const LayoutKind layout : {LayoutKind::flat, LayoutKind::per_parameter}) {
      testing::run_ranks(
          Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
            comm::Mesh mesh(std::move(world));
            Stack model;
            const Options options{.strategy = sharding.strategy,
                                  .layout = layout,
                                  .wrap_policy = groups_of(model, "aa-bb")};
            ShardedModel sharded(context, model, mesh, options);
            testing::store_random(sharded, 1);
            EXPECT_EQ(sharded.units().size(), 4u);
            nn::Tape tape(context);
            Owned<float> x({1, kWidth}), dy({1, kWidth});
            AdamW optimizer(context, sharded.units(), {});
            for (int step = 0; step < 2; ++step) {
              mesh.reset_traffic();
              sharded.zero_grad();
              tape.begin(true);
              sharded.forward(tape, x);
              sharded.backward(tape, dy);
              optimizer.step(0.1, Tensor());
            }
            const formula::Plan plan =
                formula::plan(formula::layouts_of(sharded.units()), options, {.shard_size = 2});
            for (const MemoryClass c :
                 {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                  MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients,
                  MemoryClass::communication}) {
              EXPECT_EQ(context.ledger.count(c).reserved_peak, plan.of(c))
                  << sharding.name << " " << nanofsdp::name_of(c);
            }
            EXPECT_EQ(mesh.traffic().all_gathers, plan.step.all_gathers) << sharding.name;
            EXPECT_EQ(mesh.traffic().bytes_sent, plan.step.bytes_sent) << sharding.name;
          });
    }
  }
}

// Controls name any module of the group.
TEST(Groups, AreControlledByAnyOfTheirModules) {
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Stack model;
        ShardedModel sharded(context, model, mesh, {.wrap_policy = groups_of(model, "---aa")});
        sharded.set_requires_gradient_sync(false, &model.layers[4]);
        EXPECT_EQ(sharded.units()[3].name(), "group a");
        EXPECT_FALSE(sharded.units()[3].requires_gradient_sync);
        EXPECT_TRUE(sharded.units()[2].requires_gradient_sync);
        EXPECT_EQ(sharded.units()[3].modules().size(), 2u);
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp::groups_test
