#include "base/tracer.h"

namespace nanofsdp {

std::size_t Tracer::begin(Stream& stream, Lane lane, std::string name) {
  if (!on_) return 0;
  spans_.push_back({.lane = lane, .name = std::move(name), .issued = now_seconds()});
  stream.note(spans_.back().begin);
  return spans_.size();
}

Event Tracer::end(Stream& stream, std::size_t span, std::int64_t bytes) {
  if (span != 0) {
    spans_[span - 1].bytes = bytes;
    stream.note(spans_[span - 1].end);
  }
  Event event = stream.record();
  event.span = span;
  return event;
}

void Tracer::wait(Stream& stream, const Event& event) {
  if (event.state() == nullptr) return;
  const std::size_t span = begin(stream, Lane::wait, "wait");
  stream.wait(event);
  if (span == 0) return;
  spans_[span - 1].waits_for = event.span;
  end(stream, span);
}

}  // namespace nanofsdp
