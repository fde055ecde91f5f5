#include <algorithm>
#include <string>
#include <vector>

#include "frame/exercise.h"
#include "frame/lanes.h"
#include "two_slots_exercise.h"

// The specification lets time pass tick by tick, and watches both lanes.
static int by_the_clock(const Schedule& s) {
  int gathered = 0, computed = 0;               // how many units
  int gather_ends = -1, computation_ends = -1;  // -1: none is running
  for (int now = 0;; ++now) {
    if (gather_ends == now) ++gathered, gather_ends = -1;
    if (computation_ends == now) ++computed, computation_ends = -1;
    if (computed == s.units) return now;
    const bool has_slot = gathered - s.slots < computed;
    if (gather_ends < 0 && gathered < s.units && has_slot) gather_ends = now + s.gather;
    if (computation_ends < 0 && computed < gathered) computation_ends = now + s.compute;
  }
}

// Draws the pass that follows from the reader's numbers: `finish` of the first u units says when
// unit u - 1 has computed, and its slot is free.
static void show(const std::string& program) {
  constexpr int kUnits = 5, kSlots = 2, kGather = 3, kCompute = 4, kBytes = 4 * 196864;
  const auto of_first = [&](int units) { return Schedule{units, kSlots, kGather, kCompute}; };
  lesson::Chart chart{.lanes = {"compute", "all-gather", "slot 1", "slot 2"}};
  std::vector<int> computed;
  for (int u = 0, now = 0, gathered = 0; u < kUnits; ++u) {
    const int end = finish(of_first(u + 1));
    const int begin = std::max(gathered, u < kSlots ? 0 : computed[u - kSlots]);
    gathered = begin + kGather;
    const std::string unit = std::to_string(u), waits = std::to_string(end - kCompute - now);
    chart.bars.push_back({0, now, end - kCompute, lesson::colour::waiting, waits});
    chart.bars.push_back({0, end - kCompute, end, lesson::colour::computation, unit});
    chart.bars.push_back({1, begin, gathered, lesson::colour::all_gather, unit});
    chart.bars.push_back({2 + u % kSlots, begin, end, lesson::colour::parameters, unit});
    computed.push_back(now = end);
  }
  const int yours = computed.back(), par = by_the_clock(of_first(kUnits)), work = kUnits * kCompute;
  fmt::print(
      "Your pass of {} units with {} slots, {} ms a gather, {} ms a computation: {} ms, {} ms "
      "exposed (right: {}, {}). Slots of 196,864 parameters: {} bytes.\n",
      kUnits, kSlots, kGather, kCompute, yours, yours - work, par, par - work, kSlots * kBytes);
  chart.title =
      fmt::format("{} ms, {} ms exposed (right: {} and {})", yours, yours - work, par, par - work);
  lesson::show_schedule(program, "14",
                        lesson::timeline({"Your pass of five units. Number on a bar: the unit.",
                                          "Hatched: computation waits, in ms."},
                                         {chart}, "ms", 5));
}

int main(int, char** argv) {
  lesson::Exercise exercise("finish");
  for (int units = 0; units <= 7; ++units) {
    for (int slots = 1; slots <= 4; ++slots) {
      for (int gather = 1; gather <= 4; ++gather) {
        for (int compute = 1; compute <= 4; ++compute) {
          const Schedule schedule{units, slots, gather, compute};
          exercise.expect(finish(schedule), by_the_clock(schedule),
                          "{} units, {} slots, gather {}, compute {}", units, slots, gather,
                          compute);
        }
      }
    }
  }
  const int wrong = exercise.end();
  show(argv[0]);
  return wrong;
}
