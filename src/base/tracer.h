#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/device.h"

namespace nanofsdp {

/// @file
/// @brief What a rank did: the order in which its main thread issued it, and when it ran.

/// Where work runs. Each stream is a lane of the trace; waiting is computation standing still.
enum class Lane { compute, all_gather, reduce, wait };

/// Whether spans say when work ran. On CUDA the host knows only when it issued the work.
constexpr bool spans_say_when_work_ran(Device device) { return device == Device::cpu; }

/// Something that took a while. Times in seconds of a clock that all processes of a host share.
struct Span {
  Lane lane = Lane::compute;  ///< where it ran
  std::string name;           ///< "forward transformer.h.0"; of communication, the unit
  std::int64_t bytes = 0;     ///< payload that the rank receives
  double issued = 0;          ///< when the main thread asked for it
  double begin = 0;           ///< when it ran, 0 while it has not
  double end = 0;             ///< when it was done, 0 while it is not
  std::size_t waits_for = 0;  ///< of a wait: the number of the span it waits for, 0 if none
};

/// Records when switched on. Events of the order are short verbs with the unit they concern:
///
///     U.h0  all-gather issued        u.h0  unshard that found a whole copy, or one on its way
///     R.h0  resharded, memory freed  r.h0  reshard that keeps the whole copy
///     F.h0  forward of the module    RS.h0 reduce-scatter issued     AR.h0 all-reduce issued
///
/// Spans are numbered from 1 in the order in which the main thread began them. All functions are
/// the main thread's; begin and end of a span are noted where its stream runs.
class Tracer {
 public:
  void start() { on_ = true; }     ///< from now on, record
  void stop() { on_ = false; }     ///< what was recorded stays
  bool on() const { return on_; }  ///< between start() and stop()

  /// Adds an event to the order, "U.h0"; nothing while it is off.
  void issue(std::string event) {
    if (on_) order_.push_back(std::move(event));
  }

  /// The events since the last call, oldest first.
  std::vector<std::string> take_order() { return std::exchange(order_, {}); }

  /// Notes when `stream` comes to what is enqueued next. @return the span's number, 0 when off
  std::size_t begin(Stream& stream, Lane lane, std::string name);

  /// Notes when `stream` has done what was enqueued so far, and what that received.
  /// @return that moment
  Event end(Stream& stream, std::size_t span, std::int64_t bytes = 0);

  /// `stream.wait(event)`, as a span of the lane of waits; nothing if there is no event.
  void wait(Stream& stream, const Event& event);

  /// All spans so far. Call it when the streams are idle.
  const std::deque<Span>& spans() const { return spans_; }

 private:
  bool on_ = false;
  std::vector<std::string> order_;
  std::deque<Span> spans_;  // which never moves what it holds
};

}  // namespace nanofsdp
