#include <cstdint>

#include "frame/exercise.h"
#include "hybrid_shard_exercise.h"

// The specification deals out the parameters one by one, to larger and larger groups. For sizes
// that take too long, the checker knows the answer.
static std::int64_t by_dealing(std::int64_t memory, std::int64_t n, std::int64_t other,
                               std::int64_t W) {
  for (std::int64_t groups = W; groups >= 1; --groups) {
    if (W % groups != 0) continue;
    std::int64_t rank_0s = 0;
    for (std::int64_t dealt = 0; dealt < n; dealt += W / groups) ++rank_0s;
    if (16 * rank_0s + other <= memory) return W / groups;
  }
  return 0;
}

int main() {
  lesson::Exercise exercise("smallest_group");
  for (std::int64_t W = 1; W <= 12; ++W) {
    for (std::int64_t n = 1; n <= 20; ++n) {
      for (const std::int64_t other : {0, 40}) {
        for (std::int64_t memory = 0; memory <= 400; memory += 8) {
          exercise.expect(smallest_group(memory, n, other, W), by_dealing(memory, n, other, W),
                          "memory = {}, n = {}, other = {}, W = {}", memory, n, other, W);
        }
      }
    }
  }
  const std::int64_t billion = 1'000'000'000;
  exercise.expect(smallest_group(80 * billion, 7 * billion, 20 * billion, 64), std::int64_t{2},
                  "7 billion parameters, 80 GB of which 20 GB are taken, 64 ranks");
  exercise.expect(smallest_group(80 * billion, 70 * billion, 20 * billion, 64), std::int64_t{32},
                  "70 billion parameters, 80 GB of which 20 GB are taken, 64 ranks");
  return exercise.end();
}
