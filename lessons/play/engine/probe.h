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
/// @brief One number of a model on one rank: where it is right now, and its value there.

/// In this order: the whole parameter as the model sees it, this rank's shard of it; the gradient
/// as backward sees it, this rank's shard of it; Adam's two moments. Empty where the rank has none.
using Values = std::array<std::optional<float>, 6>;

/// Looks at one element of a parameter. For the rank's main thread.
class Probe {
 public:
  /// @param units, optimizer outlive the probe
  /// @throws UsageError if no parameter has this name, or it has fewer elements
  Probe(std::span<fsdp::Unit> units, const fsdp::ShardedOptimizer& optimizer,
        const std::string& parameter, std::int64_t element);

  Values look() const;  ///< now; what a collective is writing counts as not there

 private:
  std::size_t unit_of_ = 0;  // its number
  fsdp::Unit* unit_ = nullptr;
  const fsdp::ShardedParameters* row_ = nullptr;
  const nn::Parameter* parameter_ = nullptr;
  const fsdp::ShardedOptimizer* optimizer_;
  std::size_t element_;
  std::optional<std::size_t> in_shard_;  // where it lies in what this rank answers for
};

}  // namespace nanofsdp::play
