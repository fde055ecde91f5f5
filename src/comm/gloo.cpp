#include "comm/gloo.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/fingerprint.h"
#include "base/transfer.h"
#include "comm/gloo_wire.h"
#include "comm/group.h"
#include "comm/reading.h"
#include "comm/sharing.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Message = GlooWire::Message;
using Messages = std::deque<Message>;  // a deque never moves its elements
using Way = Message::Way;

// The number of segments of a reduce_scatter that are under way at a time: one is received while
// another is summed. With smaller segments, threads would wait for each other more than the overlap
// saves.
constexpr std::size_t kWindow = 2;
constexpr std::size_t kSegmentBytes = kGlooWindowBytes / kWindow;

// Gloo's own tags begin with 1 .. 8.
constexpr std::uint64_t kOperationTag = std::uint64_t{0x40} << 56;

// Payload is sent in a tag that is a hash of the operation. So messages of different calls never
// match, and every message has the length that its receiver expects. A longer message would end the
// receiver's process inside Gloo, and a shorter one would give no error.
std::uint64_t payload_tag(const Operation& operation) {
  const std::uint64_t hash = fingerprint(std::as_bytes(std::span(&operation, 1)));
  return kOperationTag | std::uint64_t{1} << 55 | (operation.sequence & 0x7fffff) << 32 |
         ((hash ^ hash >> 32) & 0xffffffff);
}

std::byte* at(const Tensor& x, std::size_t bytes) {
  return static_cast<std::byte*>(x.raw()) + bytes;
}

class GlooGroup final : public Group {
 public:
  GlooGroup(std::shared_ptr<ProcessState> run, std::string name, const GroupSpec& spec)
      : Group(spec.rank, static_cast<int>(spec.members.size())),
        run_(std::move(run)),
        name_(std::move(name)),
        wire_(run_, name_, spec),
        scratch_(*run_->ledger, MemoryClass::communication, 0) {}

  void run(Stream& stream, const Operation& call, Tensor in, Tensor out) override;

  std::shared_ptr<Group> split(int color) override {
    const GroupSpec spec = comm::split(*this, wire_.peers(), color);
    if (!spec.slots.empty()) return make_reading_group(run_, spec);
    const std::uint64_t sequence = wire_.peers().calls().back().sequence;
    return std::make_shared<GlooGroup>(run_, fmt::format("{}.{}.{}", name_, sequence, color), spec);
  }

  void work(int begins, const std::string& at) override { run_->work(begins, at); }
  void abort(const std::string& reason) noexcept override { wire_.peers().abort(reason); }

 private:
  using Kind = Operation::Kind;

  // The i-th peer, i = 1 .. size - 1. Every rank begins with another peer.
  int peer(int i) const { return (rank + i) % size; }

  static void wait_for(Messages& messages) {
    for (Message& message : messages) message.wait();
    messages.clear();
  }

  const std::shared_ptr<ProcessState> run_;
  const std::string name_;
  GlooWire wire_;
  Buffer scratch_;  // chunks from peers, which are summed here
};

// A rank sends a chunk to each peer and receives one from each. In a broadcast only the root sends,
// and the others receive. A chunk is one message, except in a reduce_scatter, where it is sent in
// segments.
void GlooGroup::run(Stream& stream, const Operation& call, Tensor in, Tensor out) {
  const Operation& operation = wire_.peers().begin(call);
  const History& mine = wire_.peers().calls();
  const bool reduces = operation.kind == Kind::reduce_scatter;
  const bool from_root = operation.kind == Kind::broadcast;
  const std::size_t chunk = in.bytes() / (reduces ? size : 1);
  const std::size_t longest = reduces ? kSegmentBytes : std::max<std::size_t>(chunk, 1);
  const std::size_t segments = (chunk + longest - 1) / longest;
  const auto bytes_of = [&](std::size_t k) { return std::min(longest, chunk - k * longest); };
  if (reduces) scratch_.grow(gloo_scratch_bytes(size, static_cast<std::int64_t>(chunk)));
  // The place for segment k from peer(i). Segments that are summed go to one of two windows of the
  // scratch memory.
  const auto landing = [&](std::size_t k, int i) {
    if (!reduces) return at(out, from_root ? 0 : peer(i) * chunk);
    const std::size_t window = k % kWindow * (size - 1) * kSegmentBytes;
    return at(scratch_.tensor({0}), window + (i - 1) * bytes_of(k));
  };
  std::vector<History> theirs(static_cast<std::size_t>(size));  // the peers' calls
  Messages calls, sent;
  std::array<Messages, kWindow> received;
  const auto post = [&](std::size_t k, int i) {
    const std::uint64_t tag = payload_tag(operation);
    if (!from_root || peer(i) == operation.root) {
      received[k % kWindow].emplace_back(wire_, Way::receive, peer(i), tag, landing(k, i),
                                         bytes_of(k));
    }
    if (!from_root || rank == operation.root) {
      const std::byte* const segment = at(in, (reduces ? peer(i) * chunk : 0) + k * longest);
      sent.emplace_back(wire_, Way::send, peer(i), tag, segment, bytes_of(k));
    }
  };

  // Sends this rank's calls to the peers, and receives theirs. The first messages of the payload
  // are posted at the same time, so this needs no additional round trip.
  for (int i = 1; i < size; ++i) {
    calls.emplace_back(wire_, Way::receive, peer(i), kOperationTag, &theirs[peer(i)], sizeof mine);
    calls.emplace_back(wire_, Way::send, peer(i), kOperationTag, &mine, sizeof mine);
    for (std::size_t k = 0; k < std::min(kWindow, segments); ++k) post(k, i);
  }
  if (!reduces && !from_root && chunk > 0) {
    copy_within(stream, in.raw(), out.slice(rank * in.numel(), in.numel()));
  }
  wait_for(calls);
  for (int i = 1; i < size; ++i) wire_.peers().require_same_call(peer(i), theirs[peer(i)]);
  std::vector<const void*> addends(static_cast<std::size_t>(size));
  for (std::size_t k = 0; k < segments; ++k) {
    wait_for(received[k % kWindow]);
    if (reduces) {
      for (int i = 1; i < size; ++i) addends[peer(i)] = landing(k, i);
      addends[rank] = at(in, rank * chunk + k * kSegmentBytes);
      const std::size_t width = size_of(in.dtype());
      const Tensor part = out.slice(k * kSegmentBytes / width, bytes_of(k) / width);
      sum_in_rank_order(stream, addends, in.dtype(), part, operation.reduce);
    }
    for (int i = 1; i < size && k + kWindow < segments; ++i) post(k + kWindow, i);
  }
  wait_for(sent);
}

}  // namespace

std::unique_ptr<Communicator> make_gloo(Context& context, launch::Store& store,
                                        const GlooOptions& options) {
  if (context.world_size == 1) return make_self();
  auto run = std::make_shared<ProcessState>(store, options.timeout);
  run->ledger = &context.ledger;
  GroupSpec all{.rank = context.rank,
                .members = std::vector<int>(static_cast<std::size_t>(context.world_size))};
  std::iota(all.members.begin(), all.members.end(), 0);
  const std::string why_not = share_memory(*run, all.members, options.transport != Transport::gloo);
  context.shared = run->memory;
  if (why_not.empty()) {
    context.transport = "shared memory";
    // No slot was taken before, so each rank's slot is at the begin of its part.
    all.slots.assign(all.members.size(), take_slot(*run));
    return on_streams(make_reading_group(std::move(run), all));
  }
  NANOFSDP_REFUSE_IF(options.transport == Transport::shared, .what = "transport shared",
                     .expected = "ranks that share memory", .got = why_not,
                     .hint = "use the transport gloo");
  context.transport = fmt::format("TCP ({})", why_not);
  return on_streams(std::make_shared<GlooGroup>(std::move(run), "world", all));
}

}  // namespace nanofsdp::comm
