#pragma once

#include <deque>

#include "base/tracer.h"

namespace nanofsdp::cli {

/// @file
/// @brief Computes how much communication was hidden behind computation, and how much could have
/// been.
///
/// Communication is exposed while computation waits for it. The least exposed time follows from the
/// schedule: the order in which the main thread issued collectives, computed and waited. A replay
/// of this order gives it. The replay uses the measured durations, but in it no rank is ever late.

/// Seconds of one rank, over all traced spans.
struct Overlap {
  double communication = 0;  ///< all-gathers and reductions, each from its begin to its end
  double exposed = 0;        ///< time in which computation waited for communication
  double bound = 0;          ///< time for which it must wait in this schedule

  /// Between 0 and 1. It is 1 if there was no communication.
  double hidden_share() const { return share(exposed); }
  double hidden_share_bound() const { return share(bound); }

 private:
  // Computation may wait longer than communication takes, for a rank that is late.
  double share(double t) const { return t > communication ? 0 : t > 0 ? 1 - t / communication : 1; }
};

Overlap overlap(const std::deque<Span>& spans);

}  // namespace nanofsdp::cli
