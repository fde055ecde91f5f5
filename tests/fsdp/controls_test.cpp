#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/linear.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// Tests FSDP2's controls, which a user sets between passes.

// The reduced gradients of this rank's shards after three micro-steps, unit by unit; and the number
// of reductions. `synced(m, unit)` says whether the unit's gradients are reduced after m.
template <class Synced>
std::vector<std::vector<float>> gradients(const TinyOptions& options, const Synced& synced,
                                          std::int64_t& reductions) {
  std::vector<std::vector<float>> all;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), options);
        training.sharded.zero_grad();
        for (std::int64_t m = 0; m < options.micro_steps; ++m) {
          for (const Unit& unit : training.sharded.units()) {
            training.sharded.set_requires_gradient_sync(synced(m, unit), &unit.module());
          }
          training.micro_step(0, m);
        }
        if (context.rank != 0) return;
        reductions = training.mesh.traffic().reduce_scatters;
        for (const ShardedParameters* row : training.sharded.rows()) {
          const std::span<float> shard = row->gradient_shard().template span<float>();
          all.emplace_back(shard.begin(), shard.end());
        }
      });
  return all;
}

// If it is off until the last micro-step, the bits are those of no_sync. If it is on, they are the
// usual ones. Each unit has a switch of its own.
TEST(GradientSync, IsOnAndOffForEachUnit) {
  const TinyOptions usual{.micro_steps = 3};
  TinyOptions no_sync = usual;
  no_sync.no_sync = true;
  const auto always = [](std::int64_t, const Unit&) { return true; };
  const auto in_the_end = [](std::int64_t m, const Unit&) { return m == 2; };
  const auto is_first = [](const Unit& unit) { return unit.name() == "transformer.h.0"; };
  const auto mixed = [&](std::int64_t m, const Unit& unit) { return m == 2 || !is_first(unit); };
  std::int64_t all = 0, one = 0, few = 0, some = 0;
  const auto each = gradients(usual, always, all), added_up = gradients(no_sync, always, one);
  EXPECT_NE(each, added_up);  // the sums are in another order
  EXPECT_EQ(gradients(usual, in_the_end, few), added_up);
  auto expected = each;
  expected[0] = added_up[0];
  EXPECT_EQ(gradients(usual, mixed, some), expected);
  const std::int64_t units = static_cast<std::int64_t>(each.size());
  EXPECT_EQ(all, 3 * units);
  EXPECT_EQ(one, units);
  EXPECT_EQ(few, units);
  EXPECT_EQ(some, 3 * units - 2);
}

std::string order_of_a_step(const auto& prepare) {
  std::string line;
  testing::run_ranks(
      Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world),
                              {.prefetch = BackwardPrefetch::none, .forward_prefetch = 0});
        prepare(training.sharded, training.model);
        if (context.rank == 0) context.tracer.start();
        training.step(0);
        if (context.rank != 0) return;
        for (const std::string& event : context.tracer.take_order()) line += event + " ";
      });
  for (const std::string path = "transformer.h."; line.find(path) != std::string::npos;) {
    line.replace(line.find(path), path.size(), "b");
  }
  return line;
}

// The lists count in the first pass already, in which there is no guess yet.
TEST(PrefetchLists, SayWhatIsGatheredAhead) {
  const auto lists = [](ShardedModel& sharded, gpt::GPT& model) {
    const nn::Module *b0 = model.blocks()[0].get(), *b1 = model.blocks()[1].get(),
                     *b2 = model.blocks()[2].get();
    sharded.set_modules_to_forward_prefetch(model, {b0});
    sharded.set_modules_to_forward_prefetch(*b0, {b1});
    sharded.set_modules_to_forward_prefetch(*b1, {});
    sharded.set_modules_to_backward_prefetch(model, {b2, b1});
  };
  EXPECT_EQ(order_of_a_step(lists),
            "U.root U.b0 u.b0 U.b1 F.b0 R.b0 u.b1 F.b1 R.b1 U.b2 F.b2 R.b2 r.root u.root "
            "U.b2 U.b1 u.b2 R.b2 RS.b2 u.b1 R.b1 RS.b1 U.b0 R.b0 RS.b0 R.root RS.root ");
}

// When backward reaches the first block, the gradients of the last one are being reduced.
TEST(PrefetchLists, MayNameUnitsThatAreDone) {
  const auto nothing = [](ShardedModel&, gpt::GPT&) {};
  const auto lists = [](ShardedModel& sharded, gpt::GPT& model) {
    sharded.set_modules_to_backward_prefetch(*model.blocks()[0], {model.blocks()[2].get()});
  };
  EXPECT_EQ(order_of_a_step(lists), order_of_a_step(nothing));
}

TEST(Controls, AreOfUnits) {
  testing::run_ranks(
      Backend::self, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), {});
        const nn::Linear stranger({.in = 1, .out = 1});
        ShardedModel& sharded = training.sharded;
        EXPECT_THROW(sharded.set_requires_gradient_sync(false, &stranger), Error);
        EXPECT_THROW(sharded.set_modules_to_forward_prefetch(stranger, {}), Error);
        EXPECT_THROW(sharded.set_modules_to_backward_prefetch(training.model, {&stranger}), Error);
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
