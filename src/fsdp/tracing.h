#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/tracer.h"
#include "comm/mesh.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief What units do, for the rank's tracer (base/tracer.h), which may be off.

/// Told by units and their hooks, on the main thread. It changes nothing but the events.
class Tracing {
 public:
  /// @param tracer, mesh outlive this object
  Tracing(Tracer& tracer, const comm::Mesh& mesh) : tracer_(tracer), mesh_(mesh) {}

  /// The main thread has come to an event: "U." or another short one of base/tracer.h, and a unit.
  void issue(const char* verb, const std::string& unit) { tracer_.issue(verb + unit); }
  /// Work on `stream` is enqueued next.
  void begin(Stream& stream, Lane lane, const std::string& name);
  /// What began last is enqueued.
  /// @param done passes when it is done; null for what is no communication
  void end(Stream& stream, Event* done = nullptr);
  /// `stream.wait(event)`, as a span of its own; nothing if there is no event.
  void wait(Stream& stream, const Event& event) {
    if (event.state() == nullptr) return;
    tracer_.on() ? tracer_.wait(stream, event) : stream.wait(event);
  }

 private:
  Tracer& tracer_;
  const comm::Mesh& mesh_;
  // Spans that have begun and not ended, of which the last ends first; and the bytes that had been
  // received before each.
  std::vector<std::pair<std::size_t, std::int64_t>> begun_;
};

}  // namespace nanofsdp::fsdp
