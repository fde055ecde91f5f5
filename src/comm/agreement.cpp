#include "comm/agreement.h"

#include <fmt/format.h>

#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"

namespace nanofsdp::comm {

void gather_on_host(Communicator& world, Stream& stream, Tensor mine, Tensor all,
                    const std::string& unit) {
  Ledger ledger;  // a few bytes for each rank, used once, so no other ledger counts them
  const Buffer memory(ledger, MemoryClass::communication, all.bytes(), stream.device());
  const Tensor whole = memory.tensor(all.shape(), all.dtype());
  const Tensor own = whole.slice(world.rank() * mine.numel(), mine.numel());
  transfer(stream, mine, own);
  stream.wait(world.all_gather(stream, own, whole, {.unit = unit, .control = true}));
  transfer(stream, whole, all);
  stream.synchronize();
}

void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  // These are eight bytes, which no collective interprets as a number.
  gather_on_host(world, stream, Tensor(&fingerprint, {1}, DType::float64),
                 Tensor(all.data(), {world.size()}, DType::float64), what);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw CommError(
        CommError::Kind::mismatch,
        fmt::format("ranks disagree on {}: rank 0 has {:#018x}, rank {} has {:#018x}; {}", what,
                    all[0], rank, all[rank], hint));
  }
}

}  // namespace nanofsdp::comm
