#include <algorithm>
#include <random>
#include <string>

#include "cli/overlap.h"
#include "frame/exercise.h"
#include "overlap_exercise.h"
#include "referee.h"

using lesson::Action;

static std::string text_of(const lesson::Schedule& schedule) {
  std::string text;
  for (const auto& [kind, lane, ms, of, unit] : schedule) {
    if (!text.empty()) text += ", ";
    if (kind == Action::issue) text += fmt::format("issue in lane {} for {} ms", lane, ms);
    if (kind == Action::compute) text += fmt::format("compute for {} ms", ms);
    if (kind == Action::wait) text += fmt::format("wait for issue {}", of);
  }
  return text;
}

// Random schedules. The short schedules come first.
static int check_exposed() {
  lesson::Exercise exercise("exposed");
  std::mt19937 random(lesson::seed(13));
  for (int i = 0; i < 200; ++i) {
    lesson::Schedule schedule;
    int issues = 0;
    for (int n = 0; n < 3 + i / 10; ++n) {
      const unsigned kind = n == 0 ? 0 : random() % 3, r = random();
      const int ms = static_cast<int>(1 + r % 9);
      if (kind == 0) schedule.push_back({Action::issue, static_cast<int>(r / 9 % 2), ms}), ++issues;
      if (kind == 1) schedule.push_back({Action::compute, 0, ms});
      if (kind == 2) schedule.push_back({Action::wait, 0, 0, static_cast<int>(r) % issues});
    }
    for (Action& action : schedule) action.of = std::max(action.of, 0);
    const int spec = static_cast<int>(nanofsdp::cli::overlap(lesson::spans(schedule)).bound);
    exercise.expect(exposed(schedule), spec, "schedule: {}", text_of(schedule));
  }
  return exercise.end();
}

// Steps of 1 to 6 units with 1 to 4 slots.
static int check_step() {
  lesson::Exercise exercise("step");
  for (int units = 1; units <= 6; ++units) {
    for (int slots = 1; slots <= 4; ++slots) {
      const lesson::Played yours = lesson::play(step(units, slots), units, slots);
      exercise.expect(lesson::Score{yours.mistake, yours.exposed},
                      lesson::Score{"", lesson::par(units, slots), "at most "},
                      "{} units, {} slots", units, slots);
    }
  }
  return exercise.end();
}

// What `make leaderboard` compares: the milliseconds that the reader's steps of all sizes expose.
// It is -1 if one of them breaks a rule.
int exposed_in_all() {
  int sum = 0;
  for (int units = 1; units <= 6; ++units) {
    for (int slots = 1; slots <= 4; ++slots) {
      const lesson::Played played = lesson::play(step(units, slots), units, slots);
      if (!played.mistake.empty()) return -1;
      sum += played.exposed;
    }
  }
  return sum;
}

// The reader's step of the lesson's units, drawn as far as the rules let it go.
static void show(const std::string& program) {
  const int slots = 2, par = lesson::par(lesson::kUnits, slots);
  lesson::Played yours = lesson::play(step(lesson::kUnits, slots), lesson::kUnits, slots);
  fmt::print("Your step of {} units with {} slots: ", lesson::kUnits, slots);
  if (yours.mistake.empty()) {
    fmt::print("{} ms exposed (par, the library's: {}), {} ms in all, at most {} slots in use.\n",
               yours.exposed, par, yours.total, yours.most_slots);
    if (yours.exposed == par) fmt::print("This is par. It can be beaten.\n");
    if (yours.exposed < par) fmt::print("You have beaten par.\n");
  } else {
    fmt::print("{}.\n", yours.mistake);
  }
  yours.chart.title = fmt::format("{} ms exposed (par {}), {} ms a step{}", yours.exposed, par,
                                  yours.total, yours.mistake.empty() ? "" : ", unfinished");
  lesson::show_schedule(program, "13",
                        lesson::timeline({"Your step of four units. Number on a bar: the unit.",
                                          "Hatched: computation waits, in ms."},
                                         {yours.chart}, "ms", 20));
}

int main(int, char** argv) {
  const int wrong = check_exposed() + check_step();
  show(argv[0]);
  return wrong == 0 ? 0 : 1;
}
