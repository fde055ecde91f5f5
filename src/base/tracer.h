#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/device.h"

namespace nanofsdp {

/// @file
/// @brief A record of one rank's work: the order in which its main thread issued it, and when it
/// ran.

/// The place where work runs. Each stream is a lane of the trace. The time in which computation
/// waits for a collective is a lane too.
enum class Lane { compute, all_gather, reduce, wait };

/// Whether the times of spans are those at which the work ran. On CUDA the host only knows when it
/// issued the work.
constexpr bool spans_say_when_work_ran(Device device) { return device == Device::cpu; }

/// One piece of work. Times are in seconds, on a clock that all processes of a host share.
struct Span {
  Lane lane = Lane::compute;  ///< the lane on which it ran
  std::string name;        ///< "forward transformer.h.0"; for communication, the name of the unit
  std::int64_t bytes = 0;  ///< payload bytes that the rank receives
  double issued = 0;       ///< when the main thread issued it
  double begin = 0;        ///< when it began; 0 before that
  double end = 0;          ///< when it ended; 0 before that
  std::size_t waits_for = 0;  ///< for a wait: number of the span for which it waits; 0: none
};

/// Records the work of a rank while it is on. The order consists of events: a short verb and the
/// name of a unit.
///
///     U.h0  all-gather issued         u.h0  the unit is unsharded, or will be: no all-gather
///     R.h0  resharded, memory freed   r.h0  reshard that keeps the unsharded parameters
///     F.h0  forward of the module     RS.h0 reduce-scatter issued     AR.h0 all-reduce issued
///
/// Spans are numbered from 1 in the order in which the main thread began them. Only the main thread
/// calls these functions. The begin and the end of a span are recorded by the stream on which it
/// runs.
class Tracer {
 public:
  void start() { on_ = true; }  ///< begins to record
  void stop() { on_ = false; }  ///< records no more; the record stays

  /// Adds an event such as "U.h0" to the order. Does nothing while the tracer is off.
  void issue(std::string event) {
    if (on_) order_.push_back(std::move(event));
  }

  /// Removes and returns the events that were recorded so far, oldest first.
  std::vector<std::string> take_order() { return std::exchange(order_, {}); }

  /// Begins a span: its time is that at which `stream` reaches this point. @return the span's
  /// number; 0 while the tracer is off
  std::size_t begin(Stream& stream, Lane lane, std::string name);

  /// Ends a span: its time is that at which `stream` reaches this point.
  /// @param bytes payload that the rank has received
  /// @return an event for this point
  Event end(Stream& stream, std::size_t span, std::int64_t bytes = 0);

  /// Calls `stream.wait(event)` and records the wait as a span. A default event is not recorded.
  void wait(Stream& stream, const Event& event);

  /// All spans so far. Call it when the streams are idle.
  const std::deque<Span>& spans() const { return spans_; }

 private:
  bool on_ = false;
  std::vector<std::string> order_;
  std::deque<Span> spans_;  // a deque never moves its elements
};

}  // namespace nanofsdp
