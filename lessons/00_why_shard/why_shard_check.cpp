#include <cstdint>

#include "frame/exercise.h"
#include "why_shard_exercise.h"

// The specification tries W = 1, 2, 3 ... With n ranks a shard is one parameter, and more ranks
// make it no smaller.
static std::int64_t by_trying(std::int64_t n, std::int64_t kept, std::int64_t borrowed,
                              std::int64_t memory) {
  for (std::int64_t W = 1; W <= n; ++W) {
    if (kept * ((n + W - 1) / W) + borrowed <= memory) return W;
  }
  return 0;
}

int main() {
  lesson::Exercise exercise("fewest_ranks");
  for (const std::int64_t n : {1, 2, 7, 100, 999}) {
    for (const std::int64_t kept : {1, 4, 16}) {
      for (const std::int64_t borrowed : {0, 8, 100}) {
        for (const std::int64_t memory : {0, 1, 15, 16, 100, 116, 1000, 20'000}) {
          exercise.expect(
              fewest_ranks(n, kept, borrowed, memory), by_trying(n, kept, borrowed, memory),
              "n = {}, kept = {}, borrowed = {}, memory = {}", n, kept, borrowed, memory);
        }
      }
    }
  }
  const std::int64_t n = 70'000'000'000, gigabytes80 = 80'000'000'000;
  exercise.expect(fewest_ranks(n, 16, 0, gigabytes80), std::int64_t{14},
                  "70 billion parameters, 80 GB, nothing borrowed");
  exercise.expect(fewest_ranks(n, 16, 14'000'000'000, gigabytes80), std::int64_t{17},
                  "70 billion parameters, 80 GB, 14 GB borrowed");
  return exercise.end();
}
