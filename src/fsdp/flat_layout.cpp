#include "fsdp/flat_layout.h"

#include <algorithm>

namespace nanofsdp::fsdp {

//! [piece]
Piece FlatLayout::piece(std::size_t i, int rank) const {
  const Range whole = in_whole(i), owned = shard_of(rank);
  const std::int64_t begin = std::max(whole.begin, owned.begin);
  const std::int64_t end = std::min(whole.end, owned.end);
  // Ranges that lie apart cross here: without this, size() would be negative and empty() false.
  if (begin >= end) return {};
  return {.in_shard = {begin - owned.begin, end - owned.begin},
          .in_parameter = {begin - whole.begin, end - whole.begin}};
}
//! [piece]

}  // namespace nanofsdp::fsdp
