#include "fsdp/tracing.h"

#include <limits>
#include <string>

#include "fsdp/unit.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {

void Tracing::on(const Unit& unit, const UnitEvent& event) {
  if (!tracer_.on()) return;
  using enum UnitEvent::Kind;
  if (!event.verb.empty()) tracer_.issue(std::string(event.verb) + unit.name());
  const std::int64_t received = mesh_.traffic().bytes_received;
  if (event.kind == begins) {
    const std::string name = std::string(event.pass) + unit.name();
    begun_.push_back({tracer_.begin(*event.stream, event.lane, name), received});
  } else if (event.kind == ends && !begun_.empty()) {
    const auto [span, before] = begun_.back();
    begun_.pop_back();
    const Event end = tracer_.end(*event.stream, span, event.event ? received - before : 0);
    if (event.event != nullptr) *event.event = end;
  } else if (event.kind == waits) {
    tracer_.wait(*event.stream, *event.event);
  }
}

void Poison::on(const Unit&, const UnitEvent& event) {
  if (event.memory.empty()) return;
  ops::fill(*event.stream, {.x = event.memory, .value = std::numeric_limits<float>::quiet_NaN()});
}

}  // namespace nanofsdp::fsdp
