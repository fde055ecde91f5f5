#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fsdp/sharded_optimizer.h"
#include "fsdp/unit.h"

namespace nanofsdp::play {

/// @file
/// @brief Follows one number of a model on one rank: where it is now, and its value there.

/// In this order: the whole parameter as the model sees it, and this rank's shard of it; the
/// gradient as backward sees it, and this rank's shard of it; Adam's two moments. A value is empty
/// if the rank does not have it.
using Values = std::array<std::optional<float>, 6>;

/// Reads one element of a parameter. Only the rank's main thread uses it.
class Probe {
 public:
  /// @param units, optimizer outlive the probe
  /// @throws UsageError if no parameter has this name, or it has fewer elements
  Probe(std::span<fsdp::Unit> units, const fsdp::ShardedOptimizer& optimizer,
        const std::string& parameter, std::int64_t element);

  Values look() const;  ///< the values now; memory that a collective is writing counts as empty

 private:
  std::size_t unit_of_ = 0;  // number of its unit
  fsdp::Unit* unit_ = nullptr;
  const fsdp::ShardedParameters* row_ = nullptr;
  const nn::Parameter* parameter_ = nullptr;
  const fsdp::ShardedOptimizer* optimizer_;
  std::size_t element_;
  std::optional<std::size_t> in_shard_;  // its place among the elements that this rank owns
};

}  // namespace nanofsdp::play
