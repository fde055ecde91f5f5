#include <gtest/gtest.h>

#include <set>

#include "models/code.h"
#include "models/generate.h"
#include "models/run.h"
#include "models/watchdog.h"

namespace models {
namespace {

// Promise 8. This takes some seconds, because a bug may show in one of hundreds of models.
// `make models` runs any number of models, and shrinks the one that fails.
void expect_equal(std::uint64_t first, std::uint64_t last, Program (*made)(Program)) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const Program program = made(generate(seed));
    const Watchdog watchdog(program);
    ASSERT_EQ(run(program), "") << "seed " << seed << "\n" << code_of(program);
  }
}

Program as_it_is(Program program) { return program; }

TEST(Models, EqualTheirReferences) { expect_equal(1, 400, as_it_is); }
TEST(Models, LongEqualTheirReferences) { expect_equal(401, 1000, as_it_is); }

// Runs the same programs with passes that enter every unit once. Then their traffic is compared,
// too.
TEST(Models, SendWhatIsPlanned) { expect_equal(1, 200, plain); }

TEST(Generator, DrawsEverything) {
  std::set<Kind> kinds;
  std::set<ShardingStrategy> strategies;
  std::set<Do> actions, inside;
  std::set<int> ranks, units, tensors;
  std::set<std::size_t> parts;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const Program program = generate(seed);
    int count = 0;
    each_node(program.model, [&](const Node& node) {
      kinds.insert(node.kind);
      count += node.unit ? 1 : 0;
    });
    units.insert(std::min(count, 5));
    parts.insert(program.parts.size());
    for (const Part& part : program.parts) {
      strategies.insert(part.world.strategy);
      ranks.insert(part.world.ranks);
      tensors.insert(part.world.tensor);
      for (const Action& action : part.actions) {
        actions.insert(action.what);
        for (const Action& inner : action.inside) inside.insert(inner.what);
      }
    }
  }
  EXPECT_EQ(kinds.size(), detail::kKinds.size());
  EXPECT_EQ(strategies.size(), fsdp::kShardings.size());
  EXPECT_EQ(actions.size(), static_cast<std::size_t>(kDos));
  EXPECT_EQ(inside.size(), static_cast<std::size_t>(kDos));
  EXPECT_EQ(ranks, (std::set{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(units, (std::set{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tensors, (std::set{1, 2, 3, 4}));
  EXPECT_EQ(parts, (std::set<std::size_t>{1, 2}));
}

// A refusal ends a program, and most programs must reach their end.
TEST(Generator, DrawsFewThatAreRefused) {
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    refused += Reference(generate(seed)).run().refusal ? 1 : 0;
  }
  EXPECT_GT(refused, 5);
  EXPECT_LT(refused, 75);
}

}  // namespace
}  // namespace models
