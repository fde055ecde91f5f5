#include "models/shrink.h"

#include <gtest/gtest.h>

#include "models/code.h"
#include "models/generate.h"

namespace models {
namespace {

// A fault that is none: two ranks, and a recomputed linear layer with a bias below a repeat.
bool fails(const Program& program) {
  bool found = false;
  each_node(program.model, [&](const Node& above) {
    if (above.kind != Kind::repeat) return;
    each_node(above,
              [&](const Node& n) { found |= n.kind == Kind::linear && n.recompute && n.bias; });
  });
  return found && program.ranks >= 2;
}

TEST(Shrink, LeavesNothingButTheFault) {
  int found = 0;
  for (std::uint64_t seed = 1; found < 3; ++seed) {
    const Program program = generate(seed);
    if (!fails(program)) continue;
    ++found;
    EXPECT_EQ(code_of(shrink(program, fails)),
              "const Program program{.ranks = 2,\n"
              " .model = {.kind = Kind::repeat, .children = {\n"
              "   {.kind = Kind::linear, .recompute = true, .bias = true}}}};\n")
        << "seed " << seed;
  }
}

TEST(Shrink, KeepsGroupsThatDivide) {
  using nanofsdp::fsdp::ShardingStrategy;
  const Program program{.ranks = 4, .shard_size = 2, .strategy = ShardingStrategy::hybrid_shard};
  const Program smallest = shrink(program, [](const Program& p) {
    EXPECT_EQ(p.shard_size == 0 ? 0 : p.ranks % p.shard_size, 0);
    return p.strategy == ShardingStrategy::hybrid_shard && p.shard_size > 0;
  });
  EXPECT_EQ(smallest.ranks, 1);
  EXPECT_EQ(smallest.shard_size, 1);
}

}  // namespace
}  // namespace models
