#include "fsdp/tracing.h"

namespace nanofsdp::fsdp {

void Tracing::begin(Stream& stream, Lane lane, const std::string& name) {
  if (!tracer_.on()) return;
  begun_.push_back({tracer_.begin(stream, lane, name), mesh_.traffic().bytes_received});
}

void Tracing::end(Stream& stream, Event* done) {
  if (!tracer_.on() || begun_.empty()) return;
  const auto [span, before] = begun_.back();
  begun_.pop_back();
  const std::int64_t received = mesh_.traffic().bytes_received - before;
  const Event end = tracer_.end(stream, span, done == nullptr ? 0 : received);
  if (done != nullptr) *done = end;
}

}  // namespace nanofsdp::fsdp
