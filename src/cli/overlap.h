#pragma once

#include <deque>

#include "base/tracer.h"

namespace nanofsdp::cli {

/// @file
/// @brief How much of the communication was hidden behind computation, and how much could have
/// been.
///
/// Communication is exposed where computation stands and waits for it. How much must be exposed
/// follows from the schedule: the order in which the main thread issued collectives, computed and
/// waited. Replayed with the measured durations, but with no rank ever late, it gives the bound.

/// Seconds of one rank, over all traced spans.
struct Overlap {
  double communication = 0;  ///< all-gathers and reductions, each from its begin to its end
  double exposed = 0;        ///< computation waited so long for them
  double bound = 0;          ///< it had to wait so long in this schedule

  double hidden_share() const { return share(exposed); }  ///< 0 to 1; 1 if none was moved
  double hidden_share_bound() const { return share(bound); }

 private:
  double share(double visible) const { return communication > 0 ? 1 - visible / communication : 1; }
};

Overlap overlap(const std::deque<Span>& spans);

}  // namespace nanofsdp::cli
