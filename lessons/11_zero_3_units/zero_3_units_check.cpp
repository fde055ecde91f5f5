#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "frame/exercise.h"
#include "frame/lanes.h"
#include "referee.h"

namespace {

using namespace nanofsdp;

// Draws the reader's first step: a lane for each unit, and in it a bar from each U.x to the next
// R.x. One event takes a time of 1.
void show(const std::string& program, const lesson::Told::Part& step) {
  lesson::Chart chart{.lanes = {"root", "h.0", "h.1", "h.2"}};
  std::map<std::string, int> since;  // when each unsharded unit was gathered
  int now = 0, gathers = 0;
  std::size_t most = 0;
  for (const auto& [name, events] : step.hooks) {
    std::istringstream words(events);
    for (std::string event; words >> event; ++now) {
      const std::string what = event.substr(0, event.find('.'));
      const std::string unit = event.substr(what.size() + 1);
      const int lane = static_cast<int>(std::ranges::find(chart.lanes, unit) - chart.lanes.begin());
      if (what == "U") since[unit] = now, ++gathers;
      most = std::max(most, since.size());
      if (what == "R") {
        chart.bars.push_back({lane, since[unit], now, lesson::colour::parameters, "unsharded"});
        since.erase(unit);
      } else if (what == "RS") {
        chart.bars.push_back({lane, now, now + 1, lesson::colour::reduce_scatter, "RS"});
      }
    }
  }
  chart.title = fmt::format("{} gathers, at most {} units unsharded", gathers, most);
  fmt::print("Your step of 3 blocks: {}.\n", chart.title);
  lesson::show_schedule(
      program, "11",
      lesson::timeline({"Your training step of three blocks and the root."}, {chart}, "events", 5));
}

}  // namespace

// Trains with the reader's hooks on two processes, and compares with the library's run.
int main(int, char** argv) {
  lesson::Exercise exercise("The four hooks");
  const lesson::FourHooks hooks{&pre_forward, &post_forward, &pre_backward, &post_backward};
  const lesson::Lines library = lesson::library_lines();
  const lesson::Difference difference = lesson::referee(hooks, library);
  if (!difference.where.empty()) {
    exercise.expect(difference.yours, difference.right, "{}", difference.where);
    if (!difference.hint.empty()) fmt::print("  Hint: {}\n", difference.hint);
    fmt::print("(U. is a gather, R. a discard, RS. a reduction.)\n");
    return exercise.end();
  }
  const lesson::Told told(library[0]);
  for (const auto& part : told.parts) {
    for (const auto& [name, events] : part.hooks) exercise.expect(events, events, "{}", name);
  }
  const int wrong = exercise.end();
  fmt::print("They have trained on {} {}: every event, byte and bit is the library's.\n",
             lesson::kHookedRanks,
             comm::default_backend() == comm::Backend::gloo ? "processes" : "threads");
  show(argv[0], told.parts[0]);
  return wrong;
}
