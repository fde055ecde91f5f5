#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/observer.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Observers of units.

/// Writes what units do to the rank's tracer (base/tracer.h).
class Tracing final : public UnitObserver {
 public:
  /// @param tracer, mesh outlive this object
  Tracing(Tracer& tracer, const comm::Mesh& mesh) : tracer_(tracer), mesh_(mesh) {}
  void on(const Unit& unit, const UnitEvent& event) override;

 private:
  struct Begun {
    std::size_t span = 0;
    std::int64_t received = 0;  // bytes, before it
  };
  Tracer& tracer_;
  const comm::Mesh& mesh_;
  std::vector<Begun> begun_;  // and not ended; what began last ends first
};

/// Fills discarded parameters with NaN: a stale pointer shows at once.
class Poison final : public UnitObserver {
 public:
  void on(const Unit& unit, const UnitEvent& event) override;
};

}  // namespace nanofsdp::fsdp
