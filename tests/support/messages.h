#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "fsdp/layout.h"

namespace nanofsdp::testing {

/// @file
/// @brief The numbers that ranks receive in float8_e4m3, computed as plainly as possible.

/// Replaces elements that share a scale by those that arrive.
inline void round_block(std::span<float> x) {
  float largest = 0x1p-100f;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  for (float& value : x) value = from_float8(to_float8(value * (448 / largest))) * (largest / 448);
}

/// Replaces the parameters of a row by those that arrive. Each rank rounds its own shard, in
/// blocks of 128 elements.
/// @param sent whether ranks send their shards. If not, a rank that has the whole cuts it into as
///        many equal parts
inline void round_in_messages(const fsdp::Layout& layout, bool sent,
                              std::span<const std::span<float>> parameters) {
  const int shards = layout.world_size();
  const std::int64_t n = (sent ? layout.padded_numel() : layout.whole_numel()) / shards;
  std::vector<float> row(static_cast<std::size_t>(shards * n));
  const auto visit = [&](const auto& each) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (int shard = 0; shard < (sent ? shards : 1); ++shard) {
        const fsdp::Piece piece = layout.piece(p, shard);
        const auto from = sent ? piece.in_parameter.begin : 0;
        const auto size = sent ? piece.in_parameter.size() : layout.in_whole(p).size();
        const auto at = sent ? shard * n + piece.in_shard.begin : layout.in_whole(p).begin;
        for (std::int64_t i = 0; i < size; ++i) {
          each(row[static_cast<std::size_t>(at + i)],
               parameters[p][static_cast<std::size_t>(from + i)]);
        }
      }
    }
  };
  visit([](float& in_row, float x) { in_row = x; });
  for (int shard = 0; shard < shards; ++shard) {
    for (std::int64_t first = 0; first < n; first += 128) {
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(128, n - first));
      round_block(std::span(row).subspan(static_cast<std::size_t>(shard * n + first), size));
    }
  }
  visit([](float in_row, float& x) { x = in_row; });
}

}  // namespace nanofsdp::testing
