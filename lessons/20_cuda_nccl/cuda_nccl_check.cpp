#include <cmath>
#include <vector>

#include "cuda_nccl_exercise.h"
#include "frame/exercise.h"

float over_warp(std::span<const float> lanes) {
  std::vector<float> now(lanes.begin(), lanes.end());
  for (std::size_t bit = lanes.size() / 2; bit > 0; bit /= 2) {
    const std::vector<float> before = now;
    for (std::size_t t = 0; t < now.size(); ++t) now[t] += before[t ^ bit];
  }
  return now[0];
}

// The specification works from the result back: lanes that differ in the lowest bit were added
// last.
static float of_lanes(std::span<const float> x, int threads, int first, int lane, int stride) {
  if (stride < 32) {
    return of_lanes(x, threads, first, lane, 2 * stride) +
           of_lanes(x, threads, first, lane + stride, 2 * stride);
  }
  float sum = 0;
  for (std::size_t i = first + lane; i < x.size(); i += threads) sum += x[i];
  return sum;
}

static float in_order(std::span<const float> x, int threads) {
  float sum = of_lanes(x, threads, 0, 0, 1);
  for (int warp = 1; warp < threads / 32; ++warp) sum += of_lanes(x, threads, 32 * warp, 0, 1);
  return sum;
}

int main() {
  lesson::Exercise exercise("block_sum");
  for (const int threads : {32, 64, 96, 256, 1024}) {
    for (const int n : {0, 1, 31, 32, 33, 100, 768, 1025, 5003}) {
      std::vector<float> x(n);
      // The numbers have very different sizes, so that another order gives other bits.
      for (int i = 0; i < n; ++i) {
        x[i] = std::ldexp(static_cast<float>(i * 7919 % 10007 - 5000), i * 31 % 24);
      }
      exercise.expect(block_sum(x, threads), in_order(x, threads), "{} numbers, {} threads", n,
                      threads);
    }
  }
  return exercise.end();
}
