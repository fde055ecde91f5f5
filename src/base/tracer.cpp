#include "base/tracer.h"

#include <chrono>

namespace nanofsdp {

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::size_t Tracer::begin(Stream& stream, Lane lane, std::string name) {
  if (!on_) return 0;
  spans_.push_back({.lane = lane, .name = std::move(name), .issued = now_seconds()});
  stream.enqueue([&span = spans_.back()] { span.begin = now_seconds(); });
  return spans_.size();
}

Event Tracer::end(Stream& stream, std::size_t span, std::int64_t bytes) {
  if (span != 0) {
    spans_[span - 1].bytes = bytes;
    stream.enqueue([&span = spans_[span - 1]] { span.end = now_seconds(); });
  }
  Event event = stream.record();
  event.span = span;
  return event;
}

void Tracer::wait(Stream& stream, const Event& event) {
  const std::size_t span = begin(stream, Lane::wait, "wait");
  if (span != 0) spans_[span - 1].waits_for = event.span;
  stream.wait(event);
  end(stream, span);
}

}  // namespace nanofsdp
