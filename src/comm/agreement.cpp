#include "comm/agreement.h"

#include <fmt/format.h>

#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"

namespace nanofsdp::comm {

void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  Ledger ledger;  // of eight bytes a rank, for this once: nobody's account
  const Buffer memory(ledger, MemoryClass::communication, all.size() * sizeof all[0],
                      stream.device());
  // Eight bytes, which no collective interprets.
  const Tensor whole = memory.tensor({world.size()}, DType::float64);
  const Tensor mine = whole.slice(world.rank(), 1);
  transfer(stream, Tensor(&fingerprint, {1}, DType::float64), mine);
  world.all_gather(stream, mine, whole, {.unit = what, .control = true});
  transfer(stream, whole, Tensor(all.data(), {world.size()}, DType::float64));
  stream.synchronize();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw CommError(
        CommError::Kind::mismatch,
        fmt::format("ranks disagree on {}: rank 0 has {:#018x}, rank {} has {:#018x}; {}", what,
                    all[0], rank, all[rank], hint));
  }
}

}  // namespace nanofsdp::comm
