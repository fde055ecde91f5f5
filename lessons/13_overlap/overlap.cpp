#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/overlap.h"
#include "frame/lanes.h"
#include "frame/lesson.h"
#include "schedule.h"
#include "slow.h"

// Lesson 13: the moment in which an all-gather is issued decides how much of it is hidden behind
// computation. We replay three schedules by hand. Then the library runs the same three, on a link
// that takes its time.

namespace {

using namespace nanofsdp;
using lesson::Action;
using lesson::Chart;
using lesson::kUnits;
using lesson::Schedule;

// Writes down what a rank's main thread does in a step of full_shard.
struct Maker {
  //! [use]
  // An Action is {kind, lane, milliseconds, number of the issue to wait for, unit}.

  // Issues the all-gather of a unit, unless that has been done before.
  void gather(int unit) {
    if (gathered[unit] >= 0) return;
    gathered[unit] = last = issues++;
    schedule.push_back({Action::issue, 0, lesson::kLink, 0, unit});
  }

  // Computes with a unit. `next` is the unit that computes after it; -1: there is none.
  void use(int unit, int next, int milliseconds) {
    gather(unit);
    if (prefetch && next >= 0) gather(next);
    schedule.push_back({Action::wait, 0, 0, gathered[unit], unit});
    if (synchronise) schedule.push_back({Action::wait, 0, 0, last, unit});
    schedule.push_back({Action::compute, 0, milliseconds, 0, unit});
    gathered[unit] = -1;  // discarded
  }
  //! [use]

  Schedule step() {
    for (int u = 0; u < kUnits; ++u) use(u, u + 1 < kUnits ? u + 1 : -1, lesson::kForward);
    std::vector<int> reductions;
    for (int u = kUnits - 1; u >= 0; --u) {
      use(u, u - 1, lesson::kBackward);
      reductions.push_back(issues++);
      schedule.push_back({Action::issue, 1, lesson::kLink, 0, u});
    }
    for (const int of : reductions) schedule.push_back({Action::wait, 0, 0, of});
    return schedule;
  }

  bool prefetch = false, synchronise = false;
  int issues = 0, last = 0;  // the issue number of the last all-gather
  std::vector<int> gathered = std::vector<int>(kUnits, -1);  // issue numbers; -1: not gathered
  Schedule schedule{};
};

struct Times {
  int exposed = 0, total = 0;
};

// When each action happens; the chart gets a bar for each.
Times replay(const Schedule& schedule, Chart& chart) {
  const auto bar = [&](int lane, int from, int to, std::string_view fill, int words) {
    chart.bars.push_back({lane, from, to, fill, std::to_string(words)});
  };
  //! [replay]
  int now = 0, exposed = 0, free[2] = {};  // when each lane has finished what was issued before
  std::vector<int> done;                   // when each collective is finished
  for (const auto& [kind, lane, milliseconds, of, unit] : schedule) {
    if (kind == Action::compute) {
      bar(0, now, now + milliseconds, lesson::colour::computation, unit);
      now += milliseconds;
    } else if (kind == Action::issue) {
      const int begin = std::max(now, free[lane]);
      done.push_back(free[lane] = begin + milliseconds);
      bar(1 + lane, begin, done.back(),
          lane == 0 ? lesson::colour::all_gather : lesson::colour::reduce_scatter, unit);
    } else if (done[of] > now) {
      bar(0, now, done[of], lesson::colour::waiting, done[of] - now);
      exposed += done[of] - now;
      now = done[of];
    }
  }
  //! [replay]
  return {exposed, now};
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const int collectives = 3 * kUnits, all = collectives * lesson::kLink;
  lesson.print(fmt::format("{} units, {} collectives of {} ms: {} ms; computation {} ms", kUnits,
                           collectives, lesson::kLink, all,
                           kUnits * (lesson::kForward + lesson::kBackward)));
  struct Case {
    const char* name;
    bool prefetch, synchronise;
  };
  std::vector<Chart> charts;
  for (const auto& [name, prefetch, synchronise] :
       {Case{"no prefetch", false, false}, Case{"prefetch", true, false},
        Case{"prefetch, then a synchronisation", true, true}}) {
    const Schedule schedule = Maker{prefetch, synchronise}.step();
    Chart chart{.lanes = {"compute", "all-gather", "reduce-scatter"}};
    const Times times = replay(schedule, chart);
    chart.title = fmt::format("{}: {} ms exposed, {} ms a step", name, times.exposed, times.total);
    const auto first = [&](int takes) {  // when the first computation that takes so long begins
      const auto is = [&](const Chart::Bar& b) { return b.lane == 0 && b.to - b.from == takes; };
      return std::ranges::find_if(chart.bars, is)->from;
    };
    chart.marks = {{first(lesson::kForward), "forward"}, {first(lesson::kBackward), "backward"}};
    charts.push_back(chart);
    lesson.print(fmt::format("{}: {} ms exposed, {} % hidden, a step takes {} ms", name,
                             times.exposed, 100 * (all - times.exposed) / all, times.total));
    lesson.answer(times.exposed);
    lesson.claim(times.exposed == cli::overlap(lesson::spans(schedule)).bound,
                 "the library's bound is the replay's");
    const lesson::Measured m = lesson::measure(prefetch, synchronise, times.total);
    std::fprintf(stderr, "measured: %.0f ms; %.0f %% hidden, of %.0f %%\n", m.milliseconds,
                 100 * m.overlap.hidden_share(), 100 * m.overlap.hidden_share_bound());
    lesson.claim(m.milliseconds >= times.total && m.reaches(times.total),
                 "a step of the library takes and hides what the schedule says");
  }
  lesson.picture(lesson::timeline(
      {"One step of four units. Number on a bar: the unit.", "Hatched: computation waits, in ms."},
      charts, "ms", 20));
  return lesson.end("the replay is the library's bound, and its steps on the slow link reach it");
}
