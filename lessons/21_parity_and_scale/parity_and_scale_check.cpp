#include <cstdint>
#include <vector>

#include "frame/exercise.h"
#include "parity_and_scale_exercise.h"
#include "plan/outline.h"
#include "plan/plan.h"

// The specification lets the engine shard the model for every k on a simulated device. Bytes for
// k = 1, 2 ... n.
static std::vector<std::int64_t> by_planning(std::int64_t n, std::int64_t block, std::int64_t root,
                                             int W) {
  using namespace nanofsdp;
  std::vector<std::int64_t> bytes;
  for (std::int64_t k = 1; k <= n; ++k) {
    plan::Layer rest{.parameters = {{root}}, .width = 1};
    for (std::int64_t left = n; left > 0; left -= k) {
      rest.behind.push_back({.is_unit = true, .parameters = {{std::min(left, k) * block}}});
    }
    plan::Outline model(rest);
    const plan::Plan plan =
        plan::plan(model, {.ranks = W,
                           .options = {.alignment = 1, .wrap_policy = plan::is_block},
                           .work = {.rows = {1}}});
    std::int64_t& sum = bytes.emplace_back();
    for (const MemoryClass c : kMemoryClasses) {
      if (c < MemoryClass::activations) sum += plan.of(c);
    }
  }
  return bytes;
}

int main() {
  lesson::Exercise exercise("blocks_a_unit");
  for (const int W : {2, 3, 4, 7}) {
    for (std::int64_t n = 1; n <= 6; ++n) {
      for (const std::int64_t block : {1, 5, 12}) {
        const std::vector<std::int64_t> bytes = by_planning(n, block, 7, W);
        for (std::int64_t memory = 100; memory <= 2000; memory += 36) {
          std::int64_t largest = 0;
          for (std::int64_t k = 1; k <= n; ++k) {
            if (bytes[static_cast<std::size_t>(k - 1)] <= memory) largest = k;
          }
          exercise.expect(blocks_a_unit(memory, n, block, 7, W), largest,
                          "memory = {}, blocks = {}, block = {}, root = 7, W = {}", memory, n,
                          block, W);
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
