#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "frame/exercise.h"
#include "why_shard_exercise.h"

namespace {

// The specification adds up the moments of a step: what is kept, and what is borrowed then.
std::int64_t needs(const Model& m, std::int64_t W) {
  const std::int64_t kept = 16 * (m.blocks * ((m.block + W - 1) / W) + (m.root + W - 1) / W);
  std::int64_t most = 0;
  for (const bool backward : {false, true}) {
    const std::int64_t root = 4 * m.root, block = 4 * m.block;
    most = std::max(most, kept + (backward ? 2 : 1) * (root + block));
  }
  return most;
}

// A number of ranks, and what each of them would need.
struct Ranks {
  std::int64_t W, needs, memory;

  friend bool operator==(const Ranks& a, const Ranks& b) { return a.W == b.W; }
  friend std::string to_string(const Ranks& r) {
    if (r.W == 0) return "0: no number of ranks is enough";
    return fmt::format("{} ranks, each needs {} of its {} bytes", r.W, r.needs, r.memory);
  }
};

Ranks ranks(const Model& m, std::int64_t memory, std::int64_t W) {
  return {W, W > 0 ? needs(m, W) : 0, memory};
}

// Tries W = 1, 2, 3 ... until every shard is one parameter: more ranks make it no smaller.
std::int64_t by_trying(const Model& m, std::int64_t memory) {
  for (std::int64_t W = 1; W <= std::max(m.block, m.root); ++W) {
    if (needs(m, W) <= memory) return W;
  }
  return 0;
}

}  // namespace

// Random models with the memory of some W, and a byte less. Then a model that needs 200,000 ranks,
// and two models of 70 billion parameters.
int main() {
  lesson::Exercise exercise("fewest_ranks");
  std::mt19937 random(lesson::seed(0));
  const auto draw = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % most);
  };
  const auto expect = [&](const Model& m, std::int64_t memory, std::int64_t W) {
    return exercise.expect(ranks(m, memory, fewest_ranks(m, memory)), ranks(m, memory, W),
                           "{} blocks of {} parameters, root of {}, {} bytes a rank", m.blocks,
                           m.block, m.root, memory);
  };
  for (std::int64_t i = 0; i < 300; ++i) {
    const Model m{draw(1 + i / 10), draw(3 + i), draw(3 + i)};
    for (const std::int64_t less : {0, 1}) {
      const std::int64_t memory = needs(m, draw(2 * (m.block + m.root))) - less;
      if (!expect(m, memory, by_trying(m, memory))) return exercise.end();
    }
    const std::int64_t little = draw(100) - 1;
    expect(m, little, by_trying(m, little));
  }
  const Model many{100, 1'000'000, 1'000'000};
  expect(many, needs(many, 200'000), 200'000);
  const std::int64_t GB = 1'000'000'000;
  expect({80, 855'654'400, 524'296'192}, 80 * GB, 17);
  expect({80, 855'654'400, 524'296'192}, 11 * GB, 0);
  expect({8, 8'500'000'000, 524'296'192}, 80 * GB, 141);
  return exercise.end();
}
