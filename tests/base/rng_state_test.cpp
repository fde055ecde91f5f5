#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "support/errors.h"

namespace nanofsdp {
namespace {

std::vector<float> mixed_draws(Generator& generator) {
  std::vector<float> x(40);
  const std::span<float> all(x);
  generator.normal(all.first(3), 0, 1);
  generator.normal(all.subspan(3, 20), 1, 2);
  generator.normal(all.subspan(23, 4), 0, 0.02);
  generator.uniform(all.subspan(27), -1, 1);
  return x;
}

TEST(RngState, RestoresMidStreamWithTheCachedNormal) {
  Generator generator(1337);
  generator.discard(623);  // the next draws need new words
  mixed_draws(generator);
  std::vector<float> one(1);
  while (generator.state().has_cached_normal == 0) generator.normal(one, 0, 1);
  const GeneratorState saved = generator.state();
  const std::vector<float> expected = mixed_draws(generator);

  Generator other(0);
  other.set_state(saved);
  EXPECT_EQ(other.state(), saved);
  EXPECT_EQ(mixed_draws(other), expected);
  EXPECT_EQ(other.state(), generator.state());

  // Without the cached normal the draws differ, so the test above can fail.
  GeneratorState forgetful = saved;
  forgetful.has_cached_normal = 0;
  other.set_state(forgetful);
  EXPECT_NE(mixed_draws(other), expected);
}

// This holds for every length around the two cases, for a new generator and for one with a cached
// normal.
TEST(RngState, DiscardEqualsDrawing) {
  for (const std::uint32_t cached : {0u, 1u}) {
    for (std::int64_t n = 0; n < 70; ++n) {
      Generator drawn(1337);
      std::vector<float> before(cached);
      drawn.normal(before, 0, 1);
      ASSERT_EQ(drawn.state().has_cached_normal, cached);
      Generator skipped = drawn;
      std::vector<float> x(static_cast<std::size_t>(n));
      drawn.normal(x, 0, 0.02);
      skipped.discard_normal(n);
      ASSERT_EQ(drawn.state(), skipped.state()) << "normal " << n << " cached " << cached;
      drawn.uniform(x, -1, 1);
      skipped.discard(n);
      ASSERT_EQ(drawn.state(), skipped.state()) << "uniform " << n << " cached " << cached;
    }
  }
}

TEST(RngState, DiscardCrossesManyBlocksOfWords) {
  for (const int n : {1, 623, 624, 625, 1248, 10000}) {
    Generator drawn(3);
    Generator skipped(3);
    for (int i = 0; i < n; ++i) drawn.random();
    skipped.discard(n);
    ASSERT_EQ(drawn.random(), skipped.random()) << n;
    ASSERT_EQ(drawn.state(), skipped.state()) << n;
  }
}

TEST(RngState, RefusesADamagedState) {
  Generator generator(1);
  const GeneratorState good = generator.state();
  GeneratorState bad = good;
  bad.position = 625;
  EXPECT_THROW(generator.set_state(bad), Error);
  bad = good;
  bad.has_cached_normal = 2;
  EXPECT_THROW(generator.set_state(bad), Error);
  // Only the top bit of the first word counts in the engine.
  bad = {.words = {0x7fffffff}};
  testing::expect_error<Error>([&] { generator.set_state(bad); }, "words 1 to 623 all zero");
  // This state would give zeros for ever.
  EXPECT_THROW(generator.set_state(GeneratorState{}), Error);
  EXPECT_EQ(generator.state(), good);
}

}  // namespace
}  // namespace nanofsdp
