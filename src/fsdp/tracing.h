#pragma once

#include <cstddef>
#include <map>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/observer.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Observers of units.

/// Writes what units do to the rank's tracer (base/tracer.h), in its short verbs.
class Tracing final : public UnitObserver {
 public:
  Tracing(Tracer& tracer, const comm::Mesh& mesh) : tracer_(tracer), mesh_(mesh) {}
  void on(const Unit& unit, const UnitEvent& event) override;

 private:
  void issue(const char* verb, const Unit& unit);
  void begin_communication(const char* verb, Lane lane, const Unit& unit, const UnitEvent& event);
  void end_communication(const UnitEvent& event);
  void begin_compute(const char* pass, const Unit& unit, const UnitEvent& event);

  Tracer& tracer_;
  const comm::Mesh& mesh_;
  std::size_t communication_ = 0;               // the span that is being enqueued
  std::int64_t received_ = 0;                   // bytes, before it
  std::map<const Unit*, std::size_t> compute_;  // the span of the unit that computes
};

/// Fills discarded parameters with NaN: a stale pointer shows at once.
class Poison final : public UnitObserver {
 public:
  void on(const Unit& unit, const UnitEvent& event) override;
};

}  // namespace nanofsdp::fsdp
