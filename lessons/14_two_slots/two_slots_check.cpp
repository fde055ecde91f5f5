#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "frame/exercise.h"
#include "frame/lanes.h"
#include "three_slots.h"
#include "two_slots_exercise.h"

// The specification lets time pass tick by tick, and watches both lanes.
static std::int64_t by_the_clock(const Schedule& s) {
  std::int64_t gathered = 0, computed = 0;               // how many units
  std::int64_t gather_ends = -1, computation_ends = -1;  // -1: none is running
  for (std::int64_t now = 0;; ++now) {
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
    const int end = static_cast<int>(finish(of_first(u + 1)));
    const int begin = std::max(gathered, u < kSlots ? 0 : computed[u - kSlots]);
    gathered = begin + kGather;
    const std::string unit = std::to_string(u), waits = std::to_string(end - kCompute - now);
    chart.bars.push_back({0, now, end - kCompute, lesson::colour::waiting, waits});
    chart.bars.push_back({0, end - kCompute, end, lesson::colour::computation, unit});
    chart.bars.push_back({1, begin, gathered, lesson::colour::all_gather, unit});
    chart.bars.push_back({2 + u % kSlots, begin, end, lesson::colour::parameters, unit});
    computed.push_back(now = end);
  }
  const int yours = computed.back(), work = kUnits * kCompute;
  const int right = static_cast<int>(by_the_clock(of_first(kUnits)));
  fmt::print(
      "Your pass of {} units with {} slots, {} ms a gather, {} ms a computation: {} ms, {} ms "
      "exposed (right: {}, {}). Slots of 196,864 parameters: {} bytes.\n",
      kUnits, kSlots, kGather, kCompute, yours, yours - work, right, right - work, kSlots * kBytes);
  chart.title = fmt::format("{} ms, {} ms exposed (right: {} and {})", yours, yours - work, right,
                            right - work);
  lesson::show_schedule(program, "14",
                        lesson::timeline({"Your pass of five units. Number on a bar: the unit.",
                                          "Hatched: computation waits, in ms."},
                                         {chart}, "ms", 5));
}

// Small passes, as the clock runs them.
static bool check_small(lesson::Exercise& exercise) {
  for (int units = 0; units <= 7; ++units) {
    for (int slots = 1; slots <= 4; ++slots) {
      for (int gather = 1; gather <= 4; ++gather) {
        for (int compute = 1; compute <= 4; ++compute) {
          const Schedule schedule{units, slots, gather, compute};
          if (!exercise.expect(finish(schedule), by_the_clock(schedule),
                               "{} units, {} slots, gather {}, compute {}", units, slots, gather,
                               compute)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

// Passes of 10^12 units. The clock runs the first nine: each further unit takes as long as the last
// of these.
static void check_large(lesson::Exercise& exercise) {
  fmt::print("finish: the small passes are right. Now 10^12 units, too many for a loop.\n");
  std::fflush(stdout);
  std::mt19937 random(lesson::seed(14));
  const auto draw = [&](unsigned most) { return static_cast<int>(1 + random() % most); };
  for (int i = 0; i < 100; ++i) {
    Schedule schedule{8, draw(4), draw(50), draw(50)};
    const std::int64_t eight = by_the_clock(schedule);
    schedule.units = 9;
    const std::int64_t further = by_the_clock(schedule) - eight;
    schedule.units = 1'000'000'000'000;
    exercise.expect(finish(schedule), eight + (schedule.units - 8) * further,
                    "10^12 units, {} slots, gather {}, compute {}", schedule.slots, schedule.gather,
                    schedule.compute);
  }
}

// The second exercise is the reader's as soon as a rule stands there that is not greedy.
static bool is_greedy() {
  const auto is_true = [](int free) {
    return gather_now({free, false}) && gather_now({free, true});
  };
  return is_true(1) && is_true(2) && is_true(3);
}

// What it says does not decide whether the exercise is done.
static void check_three_slots() {
  fmt::print("Backward of 6 units: when the last reduction ends. Three slots save a quarter.\n");
  fmt::print("gather  compute  reduce   four slots   three, your rule   three, best rule\n");
  for (const auto& [gather, compute, reduce] :
       {std::array{1, 4, 1}, std::array{2, 4, 2}, std::array{3, 4, 3}, std::array{4, 2, 4}}) {
    const lesson::Backward pass{6, gather, compute, reduce};
    const auto yours = lesson::backward_ends(pass, 3, gather_now);
    fmt::print("{:>6}{:>9}{:>8}{:>13}{:>19}{:>19}\n", gather, compute, reduce,
               *lesson::backward_ends(pass, 4, gather_now),
               yours ? fmt::to_string(*yours) : "never", lesson::earliest_end(pass));
  }
  if (is_greedy()) {
    fmt::print("gather_now is greedy: if you want more, write a better rule.\n");
    return;
  }
  lesson::Exercise exercise("gather_now");
  for (int gather = 1; gather <= 4; ++gather) {
    for (int compute = 1; compute <= 4; ++compute) {
      for (int reduce = 1; reduce <= 4; ++reduce) {
        const lesson::Backward pass{6, gather, compute, reduce};
        exercise.expect(
            lesson::backward_ends(pass, 3, gather_now).value_or(-1), lesson::earliest_end(pass),
            "three slots, gather {}, compute {}, reduce {} (-1: no end)", gather, compute, reduce);
      }
    }
  }
  if (exercise.end() != 0) fmt::print("The exercise is done: only finish has to be right.\n");
}

int main(int, char** argv) {
  lesson::Exercise exercise("finish");
  if (check_small(exercise)) check_large(exercise);
  const int wrong = exercise.end();
  if (wrong == 0) check_three_slots();
  show(argv[0]);
  return wrong;
}
