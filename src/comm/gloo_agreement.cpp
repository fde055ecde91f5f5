#include "comm/gloo_agreement.h"

namespace nanofsdp::comm {
namespace {

using Way = GlooWire::Message::Way;

// Slots have 64 bits. Gloo's own collectives use 1 .. 8 in the top byte, we 0x40. The messages of
// one slot arrive in order, so the two kinds that every call has can keep theirs.
constexpr std::uint64_t kOurs = std::uint64_t{0x40} << 56;
constexpr std::uint64_t kOperation = kOurs;
constexpr std::uint64_t kFarewell = kOurs | 1;
constexpr std::uint64_t kPayload = kOurs | std::uint64_t{1} << 55;

}  // namespace

Agreement::Agreement(const Peers& peers, const Operation& operation)
    : peers_(peers), mine_(operation), theirs_(static_cast<std::size_t>(peers.size)) {
  for (int i = 1; i < peers_.size; ++i) {
    messages_.emplace_back(peers_.wire, Way::receive, peers_(i), kOperation, &theirs_[peers_(i)],
                           sizeof(Operation));
    messages_.emplace_back(peers_.wire, Way::send, peers_(i), kOperation, &mine_,
                           sizeof(Operation));
  }
}

void Agreement::settle() {
  for (GlooWire::Message& message : messages_) message.wait();
  for (int i = 1; i < peers_.size; ++i) {
    const Operation& theirs = theirs_[peers_(i)];
    if (theirs == mine_) continue;
    exchange_farewells();
    throw mismatch_error(peers_.rank, mine_, peers_(i), theirs);
  }
}

// Ranks that disagree close their connections, which cuts off what is still on its way. So they
// first let each other know that they know: if one rank sees a mismatch, every rank sees one.
void Agreement::exchange_farewells() {
  Messages farewells;
  try {
    for (int i = 1; i < peers_.size; ++i) {
      farewells.emplace_back(peers_.wire, Way::receive, peers_(i), kFarewell, nullptr, 0);
      farewells.emplace_back(peers_.wire, Way::send, peers_(i), kFarewell, nullptr, 0);
    }
    for (GlooWire::Message& farewell : farewells) farewell.wait();
  } catch (const WireError&) {  // the mismatch is the better news
  }
  // Payload may be under way between two ranks that agree: its memory must be let go of.
  peers_.wire.abort("its ranks disagreed");
}

std::uint64_t Agreement::slot() const {
  return kPayload | (mine_.sequence & 0x7fffff) << 32 | fingerprint(mine_);
}

}  // namespace nanofsdp::comm
