#include "store/whole.h"

#include <algorithm>

namespace nanofsdp::store {

std::vector<fsdp::Range> Blocks::in_whole(fsdp::Range of_part) const {
  if (is_whole()) return {of_part};
  std::vector<fsdp::Range> ranges;
  for (std::int64_t begin = of_part.begin; begin < of_part.end;) {
    const std::int64_t block = begin / size, end = std::min(of_part.end, (block + 1) * size);
    const std::int64_t of_others = (block * (ranks - 1) + rank) * size;
    ranges.push_back({of_others + begin, of_others + end});
    begin = end;
  }
  return ranges;
}

Blocks blocks_of(const nn::Parameter& parameter) {
  const Shape& shape = parameter.shape;
  const auto& [dim, rank, ranks, groups] = parameter.part;
  if (ranks == 1 || shape.numel() == 0) return {};
  std::int64_t blocks = groups;
  for (int d = 0; d < dim; ++d) blocks *= shape[d];
  return {shape.numel() / blocks, rank, ranks};
}

Shape whole_shape(const nn::Parameter& parameter) {
  const auto& [dim, rank, ranks, groups] = parameter.part;
  return ranks == 1 ? parameter.shape : parameter.shape.with(dim, parameter.shape[dim] * ranks);
}

}  // namespace nanofsdp::store
