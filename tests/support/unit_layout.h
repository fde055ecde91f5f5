#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "fsdp/layout.h"
#include "fsdp/options.h"

namespace nanofsdp::formula {

/// @file
/// @brief A unit in the closed formulas: the sizes of its rows, and its options.

/// The sizes of a row in either layout, and the dtype in which its parameters are stored.
struct RowLayout {
  RowLayout() = default;
  RowLayout(const fsdp::Layout& layout, DType dtype = DType::float32)
      : dtype(dtype),
        parameters(layout.parameters().begin(), layout.parameters().end()),
        total_numel(layout.total_numel()),
        shard_numel(layout.shard_numel()),
        padded_numel(layout.padded_numel()),
        whole_numel(layout.whole_numel()) {}

  /// The elements of a collective: the row of all shards or, if nothing is sharded, the whole.
  std::int64_t travels(const fsdp::Options& options) const {
    return options.sharding().optimizer ? padded_numel : whole_numel;
  }

  /// The bytes of the same in a dtype. In float8_e4m3 each shard is a message, with 4 bytes for
  /// each 128 elements.
  std::int64_t bytes(const fsdp::Options& options, DType in) const {
    const std::int64_t n = travels(options);
    if (in != DType::float8_e4m3) return n * static_cast<std::int64_t>(size_of(in));
    if (n == 0) return 0;
    const std::int64_t shards = padded_numel / shard_numel, each = n / shards;
    return shards * (fsdp::round_up(each, 4) + 4 * ((each + 127) / 128));
  }

  DType dtype = DType::float32;
  std::vector<fsdp::ParameterSpec> parameters{};
  std::int64_t total_numel = 0, shard_numel = 0, padded_numel = 0, whole_numel = 0;
};

/// The layouts of a unit's rows.
struct UnitLayout {
  RowLayout trained;
  std::vector<RowLayout> frozen{};  ///< one for each dtype
  int depth = 1;                    ///< number of units around it; 0 for the root
  /// The unit's own options; if they are not set, the model's.
  std::optional<fsdp::MixedPrecision> precision{};
  std::optional<bool> reshard_after_forward{};

  std::int64_t sum(std::int64_t RowLayout::*numel) const {
    std::int64_t sum = trained.*numel;
    for (const RowLayout& row : frozen) sum += row.*numel;
    return sum;
  }
  std::int64_t total_numel() const { return sum(&RowLayout::total_numel); }
  std::int64_t shard_numel() const { return sum(&RowLayout::shard_numel); }
  std::int64_t padded_numel() const { return sum(&RowLayout::padded_numel); }
  std::int64_t padding_numel() const { return padded_numel() - total_numel(); }
  std::int64_t whole_numel() const { return sum(&RowLayout::whole_numel); }
};

// The options of a unit.
inline fsdp::Options options_of(const UnitLayout& unit, const fsdp::Options& model) {
  fsdp::Options own = model;
  own.precision = unit.precision.value_or(model.precision);
  return own;
}

}  // namespace nanofsdp::formula
