#include "cli/overlap.h"

#include <algorithm>
#include <map>
#include <vector>

namespace nanofsdp::cli {

Overlap overlap(const std::deque<Span>& spans) {
  Overlap result;
  double now = 0;  // time of the main thread in the replay
  // Time of the main thread in the run.
  double seen = spans.empty() ? 0 : spans.front().issued;
  std::map<Lane, double> free;  // when a lane has done all work that was issued before
  std::vector<double> done(spans.size() + 1);  // when each span is done in the replay; [0]: no span
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (span.lane == Lane::compute) continue;
    //! [replay]
    now += span.issued - seen;  // computation
    seen = span.issued;
    if (span.lane == Lane::wait) {
      result.exposed += span.end - span.begin;
      result.bound += std::max(0.0, done[span.waits_for] - now);
      now = std::max(now, done[span.waits_for]);
      seen = span.end;
    } else {
      const double duration = span.end - span.begin;
      result.communication += duration;
      done[i + 1] = free[span.lane] = std::max(now, free[span.lane]) + duration;
    }
    //! [replay]
  }
  return result;
}

}  // namespace nanofsdp::cli
