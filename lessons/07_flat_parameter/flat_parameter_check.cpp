#include <cstdint>
#include <span>
#include <vector>

#include "flat_parameter_exercise.h"
#include "frame/exercise.h"

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::ParameterSpec;

// Tries the toy, parameters with one element or none, the start of a GPT's block, and no
// parameters, each aligned to 1, 2, 4 and 16 elements. Compares each view's place in the row and
// its length.
int main() {
  lesson::Exercise exercise("views");
  const std::vector<std::vector<ParameterSpec>> units = {
      {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}},
      {{"scalar", {}}, {"none", {0, 4}}, {"one", {1}}, {"last", {3, 3}}},
      {{"ln_1", {128}}, {"c_attn", {384, 128}}, {"c_proj", {128, 128}}, {"ln_2", {128}}},
      {}};
  std::vector<float> memory(70000);
  for (const auto& unit : units) {
    for (const std::int64_t alignment : {1, 2, 4, 16}) {
      const Layout layout(unit, 1, alignment);
      const std::vector<std::span<float>> yours = views(memory, unit, alignment);
      if (!exercise.expect(yours.size(), unit.size(), "the number of views")) break;
      for (std::size_t i = 0; i < unit.size(); ++i) {
        exercise.expect(yours[i].data() - memory.data(), layout.in_whole(i).begin,
                        "begin of {} aligned to {}", unit[i].name, alignment);
        exercise.expect(static_cast<std::int64_t>(yours[i].size()), unit[i].numel(),
                        "length of {} aligned to {}", unit[i].name, alignment);
      }
    }
  }
  return exercise.end();
}
