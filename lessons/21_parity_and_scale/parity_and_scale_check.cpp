#include <cstdint>

#include "frame/exercise.h"
#include "parity_and_scale_exercise.h"
#include "plan/plan.h"
#include "plan/shapes.h"

// The specification plans every k as the library does, from shapes.
static std::int64_t by_planning(std::int64_t memory, std::int64_t n, std::int64_t block,
                                std::int64_t root, int W) {
  using namespace nanofsdp;
  const fsdp::Options options{.strategy = fsdp::ShardingStrategy::full_shard, .alignment = 1};
  plan::UnitShapes blocks(static_cast<std::size_t>(n), {{"block", {block}}});
  blocks.push_back({{"root", {root}}});
  std::int64_t largest = 0;
  for (std::int64_t k = 1; k <= n; ++k) {
    const auto layouts = plan::lay_out(plan::merged(blocks, k), options, {W});
    std::int64_t bytes = 0;
    for (const std::int64_t of_class : plan::plan(layouts, options, {W}).bytes) bytes += of_class;
    if (bytes <= memory) largest = k;
  }
  return largest;
}

int main() {
  lesson::Exercise exercise("blocks_a_unit");
  for (const int W : {2, 3, 4, 7}) {
    for (std::int64_t n = 1; n <= 6; ++n) {
      for (const std::int64_t block : {1, 5, 12}) {
        for (std::int64_t memory = 100; memory <= 2000; memory += 36) {
          exercise.expect(blocks_a_unit(memory, n, block, 7, W),
                          by_planning(memory, n, block, 7, W),
                          "memory = {}, n = {}, block = {}, root = 7, W = {}", memory, n, block, W);
        }
      }
    }
  }
  exercise.expect(blocks_a_unit(80'000'000'000, 80, 855'654'400, 524'296'192, 128), std::int64_t{4},
                  "Llama 70B on 128 ranks of 80 GB");
  exercise.expect(blocks_a_unit(16'000'000'000, 80, 855'654'400, 524'296'192, 1280),
                  std::int64_t{0}, "Llama 70B on 1280 ranks of 16 GB");
  return exercise.end();
}
