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
      return begin_communication("U.", Lane::all_gather, unit, event);
    case Moment::reduce_scatter_begins:
      return begin_communication("RS.", Lane::reduce, unit, event);
    case Moment::all_reduce_begins:
      return begin_communication("AR.", Lane::reduce, unit, event);
    case Moment::gather_ends:
    case Moment::reduction_ends:
      return end_communication(event);
    case Moment::forward_begins:
      return begin_compute("forward ", unit, event);
    case Moment::backward_begins:
      return begin_compute("backward ", unit, event);
    case Moment::forward_ends:
    case Moment::backward_ends:
      tracer_.end(*event.stream, compute_[&unit]);
      if (event.moment == Moment::forward_ends && !unit.is_root()) issue("F.", unit);
  }
}

void Tracing::begin_communication(const char* verb, Lane lane, const Unit& unit,
                                  const UnitEvent& event) {
  issue(verb, unit);
  received_ = mesh_.traffic().bytes_received;
  communication_ = tracer_.begin(*event.stream, lane, unit.name());
}

void Tracing::end_communication(const UnitEvent& event) {
  *event.event =
      tracer_.end(*event.stream, communication_, mesh_.traffic().bytes_received - received_);
}

void Tracing::begin_compute(const char* pass, const Unit& unit, const UnitEvent& event) {
  compute_[&unit] = tracer_.begin(*event.stream, Lane::compute, pass + unit.name());
}

void Poison::on(const Unit&, const UnitEvent& event) {
  if (event.moment != Moment::discarded || event.memory.empty()) return;
  ops::fill(*event.stream, {.x = event.memory, .value = std::numeric_limits<float>::quiet_NaN()});
}

}  // namespace nanofsdp::fsdp
