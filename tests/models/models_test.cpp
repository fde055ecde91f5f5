#include <gtest/gtest.h>

#include <set>

#include "models/code.h"
#include "models/generate.h"
#include "models/run.h"
#include "models/watchdog.h"

namespace models {
namespace {

// Promise 8. It takes some seconds: a fault shows in one model of hundreds. `make models` runs
// as many as one likes, and shrinks the one that fails.
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

// The same programs where each pass enters every unit once: what they send is counted, too.
TEST(Models, SendWhatIsPlanned) { expect_equal(1, 200, plain); }

TEST(Generator, DrawsEverything) {
  std::set<Kind> kinds;
  std::set<ShardingStrategy> strategies;
  std::set<Between> betweens;
  std::set<int> ranks, units;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const Program program = generate(seed);
    int count = 0;
    each_node(program.model, [&](const Node& node) {
      kinds.insert(node.kind);
      count += node.unit ? 1 : 0;
    });
    strategies.insert(program.strategy);
    betweens.insert(program.between);
    ranks.insert(program.ranks);
    units.insert(std::min(count, 5));
  }
  EXPECT_EQ(kinds.size(), detail::kKinds.size());
  EXPECT_EQ(strategies.size(), fsdp::kShardings.size());
  EXPECT_EQ(betweens.size(), detail::kBetween.size());
  EXPECT_EQ(ranks, (std::set{1, 2, 3, 4}));
  EXPECT_EQ(units, (std::set{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace models
