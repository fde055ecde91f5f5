#include <algorithm>
#include <random>

#include "cli/overlap.h"
#include "frame/exercise.h"
#include "overlap_exercise.h"

using lesson::Event;
// Random schedules, short ones first.
int main() {
  lesson::Exercise exercise("exposed");
  std::mt19937 random(lesson::seed(13));
  for (int i = 0; i < 200; ++i) {
    lesson::Schedule schedule;
    int issues = 0;
    for (int n = 0; n < 3 + i / 10; ++n) {
      const unsigned kind = n == 0 ? 0 : random() % 3, r = random();
      const int ms = static_cast<int>(1 + r % 9);
      if (kind == 0) schedule.push_back({Event::issue, static_cast<int>(r / 9 % 2), ms}), ++issues;
      if (kind == 1) schedule.push_back({Event::compute, 0, ms});
      if (kind == 2) schedule.push_back({Event::wait, 0, 0, static_cast<int>(r) % issues});
    }
    for (Event& e : schedule) e.of = std::max(e.of, 0);
    const int spec = static_cast<int>(nanofsdp::cli::overlap(lesson::spans(schedule)).bound);
    exercise.expect(exposed(schedule), spec, "schedule {} of {} events", i, schedule.size());
  }
  return exercise.end();
}
