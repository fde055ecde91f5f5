#include "fsdp/flat_layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t ParameterSpec::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) {
    NANOFSDP_CHECK(dim >= 0, .what = "shape of parameter '" + name + "'",
                   .expected = "dimensions of at least 0", .got = std::to_string(dim));
    n *= dim;
  }
  return n;
}

FlatLayout::FlatLayout(std::vector<ParameterSpec> parameters, int world_size,
                       std::int64_t alignment)
    : parameters_(std::move(parameters)), world_size_(world_size) {
  NANOFSDP_CHECK(world_size >= 1, .what = "world size", .expected = "at least 1",
                 .got = std::to_string(world_size));
  NANOFSDP_CHECK(alignment >= 1, .what = "alignment", .expected = "at least 1 element",
                 .got = std::to_string(alignment));
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters_) {
    const std::int64_t begin = round_up(end, alignment);
    end = begin + parameter.numel();
    in_flat_.push_back({begin, end});
    total_numel_ += parameter.numel();
  }
  shard_numel_ = round_up((end + world_size_ - 1) / world_size_, alignment);
}

Range FlatLayout::shard_of(int rank) const {
  return {rank * shard_numel_, (rank + 1) * shard_numel_};
}

//! [piece]
Piece FlatLayout::piece(std::size_t i, Range owned) const {
  const Range whole = in_flat(i);
  const std::int64_t begin = std::max(whole.begin, owned.begin);
  const std::int64_t end = std::min(whole.end, owned.end);
  // Ranges that lie apart cross here: without this, size() would be negative and empty() false.
  if (begin >= end) return {};
  return {.in_shard = {begin - owned.begin, end - owned.begin},
          .in_parameter = {begin - whole.begin, end - whole.begin}};
}
//! [piece]

}  // namespace nanofsdp::fsdp
