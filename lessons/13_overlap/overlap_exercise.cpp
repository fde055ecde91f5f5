#include "overlap_exercise.h"

#include <algorithm>

int exposed(const lesson::Schedule& schedule) {
  // TODO(lesson 13): roughly 15 lines.
  int sum = 0;
  for (const lesson::Event& event : schedule) {
    if (event.kind == lesson::Event::issue) sum += event.milliseconds;
  }
  return sum;  // as if nothing were ever hidden
}
