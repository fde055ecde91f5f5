#include "fsdp/layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {

//! [chunks]
Layout::Layout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment,
               LayoutKind kind)
    : parameters_(std::move(parameters)), kind_(kind), world_size_(world_size) {
  NANOFSDP_CHECK(world_size >= 1, .what = "world size", .expected = "at least 1",
                 .got = std::to_string(world_size));
  NANOFSDP_CHECK(alignment >= 1, .what = "alignment", .expected = "at least 1 element",
                 .got = std::to_string(alignment));
  const auto behind = [&](Range last, std::int64_t numel) {
    const std::int64_t begin = round_up(last.end, alignment);
    return Range{begin, begin + numel};
  };
  Range whole, chunk;  // those of the last parameter
  for (const ParameterSpec& parameter : parameters_) {
    const std::int64_t rows = parameter.shape.rank() == 0 ? 1 : parameter.shape[0];
    const std::int64_t of_rank = (rows + world_size - 1) / world_size;
    const std::int64_t row_numel = rows == 0 ? 0 : parameter.numel() / rows;
    in_whole_.push_back(whole = behind(whole, parameter.numel()));
    chunks_.push_back(chunk = behind(chunk, of_rank * row_numel));
    total_numel_ += parameter.numel();
  }
  const std::int64_t flat_shard = round_up((whole.end + world_size - 1) / world_size, alignment);
  whole_numel_ = flat_shard * world_size;
  shard_numel_ = kind == LayoutKind::flat ? flat_shard : round_up(chunk.end, alignment);
  if (kind == LayoutKind::flat) chunks_.assign(parameters_.size(), {0, shard_numel_});
}
//! [chunks]

//! [piece]
Piece Layout::piece(std::size_t i, int rank) const {
  const Range parameter = in_cut(i), owned{rank * chunk(i), (rank + 1) * chunk(i)};
  const std::int64_t begin = std::max(parameter.begin, owned.begin);
  const std::int64_t end = std::min(parameter.end, owned.end);
  // For ranges that do not overlap, size() would be negative here and empty() false.
  if (begin >= end) return {};
  const std::int64_t to_shard = chunks_[i].begin - owned.begin;
  return {.in_shard = {begin + to_shard, end + to_shard},
          .in_parameter = {begin - parameter.begin, end - parameter.begin}};
}
//! [piece]

}  // namespace nanofsdp::fsdp
