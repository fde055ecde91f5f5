#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "support/caller.h"

// Tests the updates that an optimizer of one's own gets, and the groups that AdamW takes.

namespace nanofsdp::fsdp::updates_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::kCallerWidth;
using testing::run_callers;

// Looks at the shapes of each update.
class Observer final : public ShardedOptimizer {
 public:
  Observer(Context& context, std::span<Unit> units, LayoutKind layout)
      : ShardedOptimizer(context, units, {"m"}), layout_(layout) {}
  int updates = 0;

 private:
  void update(Stream& /*stream*/, const Update& u) override {
    const Shape &shape = u.values.shape(), &whole = u.parameter.shape;
    const std::int64_t n = shape.numel();
    const bool has_rows = layout_ != LayoutKind::flat && whole.rank() == 2;
    const Shape rows{n / kCallerWidth, kCallerWidth};
    EXPECT_EQ(shape, n == whole.numel() ? whole : has_rows ? rows : Shape{n}) << u.parameter.name;
    EXPECT_EQ(u.gradients.shape(), shape);
    ASSERT_EQ(u.state.size(), 1u);
    EXPECT_EQ(u.state[0].shape(), shape);
    ++updates;
  }

  LayoutKind layout_;
};

// A rank updates a whole parameter, or some rows of it, or neighbouring elements of it, which lie
// in one dimension then.
TEST(Updates, HaveTheShapeOfTheWholeOfRowsOrOfElements) {
  for_all_shardings([](const CallerOptions& options) {
    std::atomic<int> updates = 0;  // the sum over all ranks, because a rank may own no element
    run_callers(options, [&](Caller& c) {
      Observer optimizer(c.context, c.sharded.units(), options.layout);
      c.sharded.zero_grad();
      c.pass();
      optimizer.step(1);
      updates += optimizer.updates;
    });
    EXPECT_GT(updates, 0);
  });
}

// A group of the caller's own decides for each parameter, whatever its shape. Gradients of zero
// leave only the decay.
TEST(Updates, DecayAsTheCallersGroupSays) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [](Caller& c) {
      const auto group_of = [](const nn::Parameter& p) {
        const auto at = static_cast<double>(p.name.size() % 3);
        return ParameterGroup{.lr_factor = 1 + at, .weight_decay = 0.25 * at};
      };
      AdamW optimizer(c.context, c.sharded.units(), {.group = group_of});
      std::vector<float> before, after;
      std::vector<double> factors;
      c.sharded.summon_full_parameters([&](const nn::Parameter& p) {
        const ParameterGroup group = group_of(p);
        for (const float w : p.data.span<float>()) {
          before.push_back(w);
          factors.push_back(1 - 0.5 * group.lr_factor * group.weight_decay);
        }
      });
      testing::Owned<float> x = testing::random_tensor({2, kCallerWidth}, 3), dy = x;
      std::ranges::fill(dy.values, 0.0F);
      c.sharded.zero_grad();
      c.tape.begin(true);
      c.sharded.forward(c.tape, x);
      c.sharded.backward(c.tape, dy);
      optimizer.step(0.5);
      after = c.weights();
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_NEAR(after[i], before[i] * factors[i], 1e-6 * std::abs(before[i])) << i;
    });
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::updates_test
