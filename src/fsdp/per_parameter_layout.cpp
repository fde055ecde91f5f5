#include "fsdp/per_parameter_layout.h"

#include <algorithm>
#include <utility>

namespace nanofsdp::fsdp {

//! [chunks]
PerParameterLayout::PerParameterLayout(std::vector<ParameterSpec> parameters, int world_size,
                                       std::int64_t alignment)
    : Layout(std::move(parameters), world_size, alignment) {
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : this->parameters()) {
    const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
    const std::int64_t of_rank = (rows + world_size - 1) / world_size;
    const std::int64_t begin = round_up(end, alignment);
    end = begin + (rows == 0 ? 0 : parameter.numel() / rows * of_rank);
    chunks_.push_back({begin, end});
  }
  shard_numel_ = round_up(end, alignment);
}

Piece PerParameterLayout::piece(std::size_t i, int rank) const {
  const std::int64_t numel = in_whole(i).size(), chunk = chunks_[i].size();
  const std::int64_t begin = std::min(rank * chunk, numel);
  const std::int64_t end = std::min(begin + chunk, numel);
  if (begin == end) return {};
  return {.in_shard = {chunks_[i].begin, chunks_[i].begin + end - begin},
          .in_parameter = {begin, end}};
}
//! [chunks]

}  // namespace nanofsdp::fsdp
