#include "comm/agreement.h"

#include <fmt/format.h>

#include <vector>

namespace nanofsdp::comm {

std::uint64_t fingerprint(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

std::uint64_t fingerprint(std::string_view text) {
  return fingerprint(std::as_bytes(std::span(text)));
}

void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  // Eight bytes, which no collective interprets.
  const Tensor mine(&fingerprint, {1}, DType::float64),
      whole(all.data(), {world.size()}, DType::float64);
  world.all_gather(stream, mine, whole, {.unit = what, .control = true}).synchronize();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw CommError(
        CommError::Kind::mismatch,
        fmt::format("ranks disagree on {}: rank 0 has {:#018x}, rank {} has {:#018x}; {}", what,
                    all[0], rank, all[rank], hint));
  }
}

}  // namespace nanofsdp::comm
