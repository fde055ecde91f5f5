#include "models/shrink.h"

#include <gtest/gtest.h>

#include "models/code.h"
#include "models/generate.h"

namespace models {
namespace {

// Stands for a bug: a pass with an evaluation inside, on two ranks, and a recomputed linear layer
// with a bias below a repeat.
bool fails(const Program& program) {
  bool found = false;
  each_node(program.model, [&](const Node& above) {
    if (above.kind != Kind::repeat) return;
    each_node(above,
              [&](const Node& n) { found |= n.kind == Kind::linear && n.recompute && n.bias; });
  });
  const auto evaluates = [](const Action& action) { return action.what == Do::evaluate; };
  const auto is_faulty = [&](const Action& action) {
    return std::ranges::any_of(action.inside, evaluates);
  };
  return found && std::ranges::any_of(program.parts, [&](const Part& part) {
           return part.world.ranks >= 2 && std::ranges::any_of(part.actions, is_faulty);
         });
}

TEST(Shrink, LeavesNothingButTheFault) {
  int found = 0;
  for (std::uint64_t seed = 1; found < 3; ++seed) {
    const Program program = generate(seed);
    if (!fails(program)) continue;
    ++found;
    EXPECT_EQ(code_of(shrink(program, fails)),
              "const Program program{.parts = {{.world = {.ranks = 2},\n"
              "   .actions = {\n"
              "    {.what = Do::pass, .inside = {\n"
              "      {.what = Do::evaluate}}}}}},\n"
              " .model = {.kind = Kind::repeat, .children = {\n"
              "   {.kind = Kind::linear, .recompute = true, .bias = true}}}};\n")
        << "seed " << seed;
  }
}

TEST(Shrink, KeepsGroupsThatDivide) {
  const Program program{
      .parts = {
          {.world = {.ranks = 4, .shard_size = 2, .strategy = ShardingStrategy::hybrid_shard}}}};
  const Program smallest = shrink(program, [](const Program& p) {
    const World& world = p.parts[0].world;
    EXPECT_EQ(world.shard_size == 0 ? 0 : world.ranks % world.shard_size, 0);
    return world.strategy == ShardingStrategy::hybrid_shard && world.shard_size > 0;
  });
  EXPECT_EQ(smallest.parts[0].world.ranks, 1);
  EXPECT_EQ(smallest.parts[0].world.shard_size, 1);
}

TEST(Shrink, LeavesOutWholeParts) {
  const Program program{.parts = {{.actions = training(3, 2)},
                                  {.world = {.ranks = 3}, .actions = training(2)},
                                  {.actions = training(1)}}};
  const Program smallest = shrink(program, [](const Program& p) {
    return std::ranges::any_of(p.parts, [](const Part& part) { return part.world.ranks == 3; });
  });
  EXPECT_EQ(smallest, (Program{.parts = {{.world = {.ranks = 3}}}}));
}

}  // namespace
}  // namespace models
