#include "fsdp/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {

//! [chunks]
Layout::Layout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment,
               LayoutKind kind)
    : parameters_(std::move(parameters)), kind_(kind), world_size_(world_size) {
  NANOFSDP_CHECK(world_size >= 1 && alignment >= 1, .what = "world size and alignment",
                 .expected = "at least 1 rank and 1 element",
                 .got = std::to_string(world_size) + " and " + std::to_string(alignment));
  const auto behind = [&](Range last, std::int64_t numel) {
    const std::int64_t begin = round_up(last.end, alignment);
    return Range{begin, begin + numel};
  };
  Range whole, chunk;  // those of the last parameter
  for (const ParameterSpec& parameter : parameters_) {
    const std::int64_t of_rank = (parameter.rows() + world_size - 1) / world_size;
    in_whole_.push_back(whole = behind(whole, parameter.numel()));
    chunks_.push_back(chunk = behind(chunk, of_rank * parameter.row_numel()));
    total_numel_ += parameter.numel();
  }
  shard_numel_ = round_up((whole.end + world_size - 1) / world_size, alignment);
  while (kind == LayoutKind::row_aligned && !place_rows(alignment)) continue;
  whole_numel_ = padded_numel();
  if (kind == LayoutKind::per_parameter) shard_numel_ = round_up(chunk.end, alignment);
  if (kind != LayoutKind::per_parameter) chunks_.assign(parameters_.size(), {0, shard_numel_});
}
//! [chunks]

//! [place_rows]
// Gives each parameter a place in the whole where no cut splits one of its rows: in a gap, or else
// behind the others. Returns whether all have places. If not, the shard has grown for another try:
// by what is missing, and until the parameter's rows fill a shard, or the parameter fits into one.
bool Layout::place_rows(std::int64_t alignment) {
  std::vector<Range> gaps{{0, padded_numel()}};  // the first one is behind all parameters
  std::int64_t left = total_numel_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t numel = parameters_[i].numel();
    if (numel == 0) continue;
    const std::int64_t step = std::lcm(parameters_[i].row_numel(), alignment);
    std::int64_t begin = 0;
    const auto fits = [&](const Range& gap) {
      begin = round_up(gap.begin, alignment);
      const std::int64_t to_cut = shard_numel_ - begin % shard_numel_;
      if (numel > to_cut) begin += to_cut % step;
      const bool cut_once = numel <= to_cut / step * step + shard_numel_;
      return begin + numel <= gap.end && (cut_once || shard_numel_ % step == 0);
    };
    std::size_t gap = gaps.size() - 1;
    while (!fits(gaps[gap])) {
      if (gap-- > 0) continue;
      const std::int64_t missing = std::max<std::int64_t>(1, left - gaps[0].size());
      const std::int64_t more = shard_numel_ + (missing + world_size_ - 1) / world_size_;
      shard_numel_ = std::min(round_up(more, step), round_up(std::max(more, numel), alignment));
      return false;
    }
    gaps.push_back({gaps[gap].begin, begin});
    gaps[gap].begin = begin + numel;
    in_whole_[i] = {begin, begin + numel};
    left -= numel;
  }
  return true;
}
//! [place_rows]

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
