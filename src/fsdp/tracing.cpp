#include "fsdp/tracing.h"

#include <limits>

#include "fsdp/unit.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {

void Tracing::issue(const char* verb, const Unit& unit) { tracer_.issue(verb + unit.name()); }

void Tracing::on(const Unit& unit, const UnitEvent& event) {
  if (!tracer_.on()) return;
  switch (event.moment) {
    case Moment::found:
      return issue("u.", unit);
    case Moment::kept:
      return issue("r.", unit);
    case Moment::discarded:
      return issue("R.", unit);
    case Moment::waits:
      return tracer_.wait(*event.stream, *event.event);
    case Moment::gather_begins:
      issue("U.", unit);
      return begin_communication(event, Lane::all_gather, unit);
    case Moment::reduce_scatter_begins:
      issue("RS.", unit);
      return begin_communication(event, Lane::reduce, unit);
    case Moment::all_reduce_begins:
      issue("AR.", unit);
      return begin_communication(event, Lane::reduce, unit);
    default:
      return event.event != nullptr ? end_communication(event) : compute(unit, event);
  }
}

void Tracing::begin_communication(const UnitEvent& event, Lane lane, const Unit& unit) {
  received_ = mesh_.traffic().bytes_received;
  communication_ = tracer_.begin(*event.stream, lane, unit.name());
}

void Tracing::end_communication(const UnitEvent& event) {
  *event.event =
      tracer_.end(*event.stream, communication_, mesh_.traffic().bytes_received - received_);
}

void Tracing::compute(const Unit& unit, const UnitEvent& event) {
  const bool forward =
      event.moment == Moment::forward_begins || event.moment == Moment::forward_ends;
  if (event.moment == Moment::forward_begins || event.moment == Moment::backward_begins) {
    compute_[&unit] = tracer_.begin(*event.stream, Lane::compute,
                                    (forward ? "forward " : "backward ") + unit.name());
    return;
  }
  tracer_.end(*event.stream, compute_[&unit]);
  if (forward && !unit.is_root()) issue("F.", unit);
}

void Poison::on(const Unit&, const UnitEvent& event) {
  if (event.moment != Moment::discarded || event.memory.empty()) return;
  ops::fill(*event.stream, {.x = event.memory, .value = std::numeric_limits<float>::quiet_NaN()});
}

}  // namespace nanofsdp::fsdp
