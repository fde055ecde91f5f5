#include "overlap_exercise.h"

int exposed(const lesson::Schedule& schedule) {
  // TODO(lesson 13): roughly 15 lines.
  int sum = 0;
  for (const lesson::Action& action : schedule) {
    if (action.kind == lesson::Action::issue) sum += action.milliseconds;
  }
  return sum;  // this hides nothing
}

std::vector<Line> step(int units, int /*slots*/) {
  // TODO(lesson 13): roughly 20 lines. This one is allowed, but gathers late.
  std::vector<Line> program;
  for (int u = 0; u < units; ++u) {
    program.insert(program.end(), {{Line::gather, u}, {Line::forward, u}, {Line::discard, u}});
  }
  for (int u = units - 1; u >= 0; --u) {
    program.insert(program.end(), {{Line::gather, u}, {Line::backward, u}, {Line::discard, u}});
  }
  for (int u = 0; u < units; ++u) program.push_back({Line::reduce, u});
  return program;
}
