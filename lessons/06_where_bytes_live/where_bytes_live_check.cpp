#include <cstdint>

#include "frame/exercise.h"
#include "where_bytes_live_exercise.h"

// The specification adds W parameters at a time until they no longer fit. If this would take too
// long, we know the answer.
static std::int64_t by_trying(std::int64_t memory, std::int64_t whole, std::int64_t divided,
                              std::int64_t W) {
  std::int64_t n = 0;
  while (whole * (n + W) + divided * (n + W) / W <= memory) n += W;
  return n;
}

int main() {
  lesson::Exercise exercise("largest_model");
  const std::int64_t kinds[][2] = {{16, 0}, {8, 8}, {4, 12}, {0, 16}, {18, 0}, {0, 18}};
  for (const auto& [whole, divided] : kinds) {
    for (std::int64_t W = 1; W <= 8; ++W) {
      for (const std::int64_t memory : {0, 15, 16, 100, 1000, 4096, 12345}) {
        exercise.expect(largest_model(memory, whole, divided, W),
                        by_trying(memory, whole, divided, W),
                        "memory = {}, whole = {}, divided = {}, W = {}", memory, whole, divided, W);
      }
    }
  }
  const std::int64_t gigabytes80 = 80'000'000'000;
  exercise.expect(largest_model(gigabytes80, 18, 0, 1), std::int64_t{4'444'444'444},
                  "80 GB, autocast, one rank");
  exercise.expect(largest_model(gigabytes80, 0, 16, 8), std::int64_t{40'000'000'000},
                  "80 GB on each of 8 ranks, ZeRO-3");
  return exercise.end();
}
