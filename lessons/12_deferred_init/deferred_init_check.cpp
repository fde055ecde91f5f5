#include <array>
#include <string>
#include <vector>

#include "base/rng.h"
#include "deferred_init_exercise.h"
#include "frame/exercise.h"

using nanofsdp::fsdp::Range;

namespace nanofsdp::fsdp {
static std::string to_string(const Range& r) { return fmt::format("[{}, {})", r.begin, r.end); }
}  // namespace nanofsdp::fsdp

// The specification fills the parameters with the numbers 0, 1, 2, ... as the plan says.
// @return the numbers in each of the three parameters
static std::array<std::vector<std::int64_t>, 3> carried_out(const std::vector<PlannedDraw>& plan) {
  std::array<std::vector<std::int64_t>, 3> values;
  std::int64_t next = 0;
  for (const PlannedDraw& draw : plan) {
    values[draw.parameter].clear();
    for (std::int64_t i = 0; i < draw.numel; ++i) values[draw.parameter].push_back(next++);
  }
  return values;
}

static std::string words(const std::vector<PlannedDraw>& plan) {
  std::string text;
  for (const PlannedDraw& draw : plan) {
    text +=
        fmt::format("{}{} for parameter {}", text.empty() ? "" : ", ", draw.numel, draw.parameter);
  }
  return text;
}

// Tries plans of up to five draws, for parameters with 4, 1 and 6 elements, and each piece that is
// not empty.
int main() {
  lesson::Exercise exercise("kept");
  const std::array<std::int64_t, 3> numels = {4, 1, 6};
  nanofsdp::Generator generator(lesson::seed(12));
  for (int n = 0; n < 200; ++n) {
    std::vector<PlannedDraw> plan;
    for (int d = 0; d <= n / 40; ++d) {
      const int parameter = static_cast<int>(generator.randint(3));
      plan.push_back({parameter, numels[parameter]});
    }
    const auto values = carried_out(plan);
    for (int p = 0; p < 3; ++p) {
      const auto numel = static_cast<std::int64_t>(values[p].size());
      for (std::int64_t begin = 0; begin < numel; ++begin) {
        for (std::int64_t end = begin + 1; end <= numel; ++end) {
          exercise.expect(
              kept(plan, p, {begin, end}), Range{values[p][begin], values[p][end - 1] + 1},
              "the plan draws {}; piece [{}, {}) of parameter {}", words(plan), begin, end, p);
        }
      }
    }
  }
  return exercise.end();
}
