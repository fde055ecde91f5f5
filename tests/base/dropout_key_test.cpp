#include "base/dropout_key.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

// All draws are fixed, so each of these tests passes always or never. The bounds are in standard
// deviations of a fair coin: a deviation of 4.5 happens once in 150,000 trials.

namespace nanofsdp {
namespace {

constexpr double kUnlucky = 4.5;
constexpr std::uint32_t kHalf = 1u << 31;

const DropoutKey kKey = {
    .seed = 1337, .iteration = 250, .micro_step = 3, .first_row = 48, .site = 7};

std::vector<bool> mask(const DropoutKey& key, std::int64_t rows, std::uint32_t elements,
                       std::uint32_t threshold) {
  std::vector<bool> kept;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t hash = row_key(key, row);
    for (std::uint32_t e = 0; e < elements; ++e) kept.push_back(keep(hash, e, threshold));
  }
  return kept;
}

// The masks must not change with a compiler or a release, because a run that resumes from a
// checkpoint draws the rest of its masks again. So this test fixes values of the function.
TEST(DropoutKey, IsTheFunctionOfTheHeader) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);  // SplitMix64's first output from state 0
  EXPECT_EQ(mix32(1), 0x514e28b7u);          // MurmurHash3's finaliser
  static_assert(row_key({.seed = 1}, 0) != row_key({.seed = 2}, 0));
  EXPECT_EQ(row_key(kKey, 5), 0xa8f7830641bcfdecu);
  EXPECT_EQ(dropout_word(row_key(kKey, 5), 123456789), 0x7fbac2b9u);
}

TEST(DropoutKey, DropsWithTheProbabilityAskedFor) {
  for (const double p : {0.001, 0.1, 0.2, 0.5, 0.9, 0.999}) {
    const auto n = 512 * 4096;
    double dropped = 0;
    for (const bool kept : mask(kKey, 512, 4096, drop_threshold(p))) dropped += kept ? 0 : 1;
    EXPECT_LT(std::abs(dropped - n * p), kUnlucky * std::sqrt(n * p * (1 - p))) << "p = " << p;
  }
}

TEST(DropoutKey, ThresholdIsPTimes2To32) {
  EXPECT_EQ(drop_threshold(0), 0u);
  EXPECT_EQ(drop_threshold(0.5), kHalf);
  EXPECT_EQ(drop_threshold(0x1p-32), 1u);
  EXPECT_EQ(drop_threshold(1 - 0x1p-40), 0xffffffffu);
  for (const double p : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(drop_threshold(p), Error) << p;
  }
}

// The threshold is rounded to nearest, so the probability is off by at most half a unit.
TEST(DropoutKey, ThresholdIsTheNearest) {
  Generator generator(3);
  for (int i = 0; i < 1000; ++i) {
    const double p = generator.uniform_double();
    EXPECT_LE(std::abs(drop_threshold(p) - p * 0x1p32), 0.5) << p;
  }
}

TEST(DropoutKey, ZeroKeepsEverything) {
  for (const bool kept : mask(kKey, 64, 4096, drop_threshold(0))) ASSERT_TRUE(kept);
  // With keys of 0 the word is 0, because mix32(0) = 0, and even this word is kept.
  EXPECT_EQ(dropout_word(0, 0), 0u);
  EXPECT_TRUE(keep(0, 0, drop_threshold(0)));
}

// The law of data parallelism: however ranks share the rows, each row gets the same mask.
TEST(DropoutKey, DoesNotDependOnHowRowsAreSplit) {
  const std::uint32_t threshold = drop_threshold(0.2);
  const std::vector<bool> whole = mask(kKey, 12, 100, threshold);
  for (int ranks = 1; ranks <= 12; ++ranks) {
    std::vector<bool> joined;
    for (int rank = 0; rank < ranks; ++rank) {
      const int begin = rank * 12 / ranks;
      const int end = (rank + 1) * 12 / ranks;
      DropoutKey part = kKey;
      part.first_row += begin;
      const std::vector<bool> piece = mask(part, end - begin, 100, threshold);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    ASSERT_EQ(joined, whole) << ranks << " ranks";
  }
}

// Fields that are small or exchanged, as in real runs, must not give the same row.
TEST(DropoutKey, EveryCoordinateCounts) {
  std::set<std::uint64_t> keys;
  for (const std::uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, 2ull << 32, 1ull << 63}) {
    for (int iteration = 0; iteration < 6; ++iteration) {
      for (int micro_step = 0; micro_step < 6; ++micro_step) {
        for (int site = 0; site < 6; ++site) {
          const DropoutKey key = {
              .seed = seed, .iteration = iteration, .micro_step = micro_step, .site = site};
          for (int row = 0; row < 6; ++row) keys.insert(row_key(key, row));
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), 6u * 6 * 6 * 6 * 6);
}

// Two masks of fair coins agree in half of their elements. The test compares neighbours along every
// coordinate, at distance one and at powers of two, where weak hashes fail.
TEST(DropoutKey, NeighboursDoNotCorrelate) {
  using Move = std::function<void(DropoutKey&, std::int64_t)>;
  const std::array<std::pair<std::string, Move>, 5> moves = {{
      {"row", [](DropoutKey& k, std::int64_t d) { k.first_row += d; }},
      {"site", [](DropoutKey& k, std::int64_t d) { k.site += static_cast<int>(d); }},
      {"micro_step", [](DropoutKey& k, std::int64_t d) { k.micro_step += d; }},
      {"iteration", [](DropoutKey& k, std::int64_t d) { k.iteration += d; }},
      {"seed", [](DropoutKey& k, std::int64_t d) { k.seed += static_cast<std::uint64_t>(d); }},
  }};
  constexpr int n = 64 * 1024;
  const auto deviation = [](const std::vector<bool>& a, const std::vector<bool>& b) {
    double agree = 0;
    for (std::size_t i = 0; i < a.size(); ++i) agree += a[i] == b[i] ? 1 : 0;
    return std::abs(agree - n / 2.0) / std::sqrt(n / 4.0);
  };
  const std::vector<bool> here = mask(kKey, 64, 1024, kHalf);
  for (const auto& [name, move] : moves) {
    for (int distance = 1; distance <= 1024; distance *= 2) {
      DropoutKey key = kKey;
      move(key, distance);
      EXPECT_LT(deviation(here, mask(key, 64, 1024, kHalf)), kUnlucky) << name << " " << distance;
    }
  }
  for (std::uint32_t distance = 1; distance <= 1u << 30; distance *= 2) {
    double agree = 0;
    for (int row = 0; row < 64; ++row) {
      const std::uint64_t hash = row_key(kKey, row);
      for (std::uint32_t e = 0; e < 1024; ++e) {
        agree += keep(hash, 2 * e, kHalf) == keep(hash, 2 * e + distance, kHalf) ? 1 : 0;
      }
    }
    EXPECT_LT(std::abs(agree - n / 2.0) / std::sqrt(n / 4.0), kUnlucky) << "element " << distance;
  }
}

// Chi square with k - 1 degrees of freedom has mean k - 1 and variance 2(k - 1). Counts that are
// too even are wrong too.
void expect_even(const std::vector<double>& count, double variance, const std::string& what) {
  double mean = 0;
  for (const double c : count) mean += c / static_cast<double>(count.size());
  double chi2 = 0;
  for (const double c : count) chi2 += (c - mean) * (c - mean) / variance;
  const double freedom = static_cast<double>(count.size()) - 1;
  EXPECT_LT(std::abs(chi2 - freedom), kUnlucky * std::sqrt(2 * freedom)) << what;
}

TEST(DropoutKey, RowsAndColumnsAreEven) {
  constexpr int rows = 1024;
  constexpr int columns = 1024;
  std::vector<double> row_count(rows);
  std::vector<double> column_count(columns);
  const std::vector<bool> kept = mask(kKey, rows, columns, kHalf);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    row_count[i / columns] += 1;
    column_count[i % columns] += 1;
  }
  expect_even(row_count, columns / 4.0, "rows");
  expect_even(column_count, rows / 4.0, "columns");
}

// Pairs of a word and the next word, along the row and down the column, fill a 16 x 16 board
// evenly. The board uses the top four bits, which decide the comparison with a threshold.
TEST(DropoutKey, PairsOfWordsAreEven) {
  std::vector<double> along(256);
  std::vector<double> down(256);
  constexpr int n = 512 * 1024;
  for (int row = 0; row < 512; ++row) {
    for (std::uint32_t e = 0; e < 1024; ++e) {
      const std::uint32_t word = dropout_word(row_key(kKey, 2 * row), 2 * e) >> 28;
      along[16 * word + (dropout_word(row_key(kKey, 2 * row), 2 * e + 1) >> 28)] += 1;
      down[16 * word + (dropout_word(row_key(kKey, 2 * row + 1), 2 * e) >> 28)] += 1;
    }
  }
  expect_even(along, n / 256.0, "along a row");
  expect_even(down, n / 256.0, "down a column");
}

}  // namespace
}  // namespace nanofsdp
