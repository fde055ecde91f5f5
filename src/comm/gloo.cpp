#include "comm/gloo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/fingerprint.h"
#include "comm/gloo_wire.h"
#include "comm/group.h"
#include "comm/self.h"
#include "comm/shared.h"
#include "comm/sharing.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Message = GlooWire::Message;
using Messages = std::deque<Message>;  // which never moves what it holds
using Way = Message::Way;

// A segment of a reduce_scatter, and how many are under way at once: receiving one while summing
// another. Smaller ones cost more in hand-overs between threads than they hide.
constexpr std::int64_t kWindow = 2;
constexpr std::int64_t kSegmentBytes = kGlooWindowBytes / kWindow;

constexpr std::uint64_t kOperationSlot = std::uint64_t{0x40} << 56;  // Gloo's own begin with 1 .. 8

// Payload travels in a slot that is a hash of the operation. What belongs to different calls never
// meets, so no message is longer than its receiver expects, which would end the receiver's process
// inside Gloo, or shorter, which would pass in silence.
std::uint64_t payload_slot(const Operation& operation) {
  const std::uint64_t sequence = operation.sequence & 0x7fffff;
  const std::uint64_t hash = fingerprint(std::as_bytes(std::span(&operation, 1)));
  return kOperationSlot | std::uint64_t{1} << 55 | sequence << 32 |
         ((hash ^ hash >> 32) & 0xffffffff);
}

std::byte* at(const Tensor& x, std::int64_t bytes) {
  return static_cast<std::byte*>(x.raw()) + bytes;
}

class GlooGroup final : public Group {
 public:
  GlooGroup(Ledger& ledger, std::shared_ptr<GlooFabric> fabric, std::string name, int rank,
            std::vector<int> members)
      : Group(rank, static_cast<int>(members.size())),
        ledger_(ledger),
        fabric_(std::move(fabric)),
        name_(std::move(name)),
        wire_(fabric_, name_, rank, std::move(members)),
        histories_(static_cast<std::size_t>(size_)) {}

  void all_gather(Stream&, const Operation& operation, Tensor in, Tensor out) override {
    exchange(operation, in.raw(), out.raw(), in.bytes());
  }

  void broadcast(Stream&, const Operation& operation, Tensor x) override {
    Messages messages;
    const auto post = [&](Way way, int peer) {
      messages.emplace_back(wire_, way, peer, payload_slot(operation), x.raw(), x.bytes());
    };
    const auto post_all = [&] {
      if (rank_ != operation.root) return post(Way::receive, operation.root);
      for (int i = 1; i < size_; ++i) post(Way::send, peer(i));
    };
    run(operation, post_all, [&] { wait_for(messages); });
  }

  void barrier(Stream&, const Operation& operation) override {
    run(
        operation, [] {}, [] {});  // to agree with all is a barrier
  }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    const std::shared_ptr<Run>& all = wire_.peers().run();
    const Seat mine{color, take_desk(*all)};
    std::vector<Seat> seats(static_cast<std::size_t>(size_));
    exchange(operation, &mine, seats.data(), sizeof mine);
    Circle circle = circle_of(seats, rank_, wire_.peers().members());
    if (circle.members.size() == 1) return make_self_group();
    if (all->share_memory(circle.members)) return make_shared_group(ledger_, all, circle);
    return std::make_shared<GlooGroup>(ledger_, fabric_,
                                       fmt::format("{}.{}.{}", name_, operation.sequence, color),
                                       circle.rank, std::move(circle.members));
  }

  void reduce_scatter(Stream&, const Operation& operation, Tensor in, Tensor out) override;
  void abort(const std::string& reason) noexcept override { wire_.peers().abort(reason); }

 private:
  // The i-th peer, i = 1 .. size - 1: every rank begins with another one.
  int peer(int i) const { return (rank_ + i) % size_; }

  // Tells the peers what this rank calls and hears it from them; meanwhile `post` posts the first
  // messages of the payload, so this costs no round trip. All agree: `rest` does the rest.
  template <class Post, class Rest>
  void run(const Operation& operation, const Post& post, const Rest& rest) {
    append(histories_[rank_], operation);
    try {
      Messages calls;
      for (int i = 1; i < size_; ++i) {
        calls.emplace_back(wire_, Way::receive, peer(i), kOperationSlot, &histories_[peer(i)],
                           sizeof(History));
        calls.emplace_back(wire_, Way::send, peer(i), kOperationSlot, &histories_[rank_],
                           sizeof(History));
      }
      post();
      wait_for(calls);
      for (int i = 1; i < size_; ++i) check_agreement(peer(i));
      rest();
    } catch (const WaitError& e) {
      throw operation_error(e.kind, member(rank_), histories_[rank_], e.what);
    }
  }
  static void wait_for(Messages& messages) {
    for (Message& message : messages) message.wait();
  }

  void check_agreement(int peer) {
    const History &mine = histories_[rank_], &theirs = histories_[peer];
    if (mine.back() == theirs.back()) return;
    // Other peers may agree and be sending: let go of the memory.
    wire_.peers().abort("its ranks disagreed");
    throw mismatch_error(member(rank_), mine, member(peer), theirs);
  }

  // A rank of the group, in the run.
  int member(int rank) { return wire_.peers().members()[static_cast<std::size_t>(rank)]; }

  // Every rank's `bytes` at `in` to chunk `rank` of every rank's `out`.
  void exchange(const Operation& operation, const void* in, void* out, std::size_t bytes) {
    const std::uint64_t slot = payload_slot(operation);
    auto* const chunks = static_cast<std::byte*>(out);
    Messages messages;
    const auto post = [&] {
      for (int i = 1; i < size_; ++i) {
        messages.emplace_back(wire_, Way::receive, peer(i), slot, chunks + peer(i) * bytes, bytes);
        messages.emplace_back(wire_, Way::send, peer(i), slot, in, bytes);
      }
      std::byte* const own = chunks + rank_ * bytes;
      if (bytes > 0 && own != in) std::memcpy(own, in, bytes);
    };
    run(operation, post, [&] { wait_for(messages); });
  }

  Ledger& ledger_;
  const std::shared_ptr<GlooFabric> fabric_;
  const std::string name_;
  GlooWire wire_;
  std::vector<History> histories_;  // each rank's, as it says
  Buffer scratch_;                  // what peers sent for the sum
};

void GlooGroup::reduce_scatter(Stream& stream, const Operation& operation, Tensor in, Tensor out) {
  const auto chunk = static_cast<std::int64_t>(out.bytes());
  const std::int64_t needed = gloo_scratch_bytes(size_, chunk);
  if (static_cast<std::int64_t>(scratch_.bytes()) < needed) {
    scratch_ = Buffer();  // first give back, then take
    scratch_ = Buffer(ledger_, MemoryClass::communication, static_cast<std::size_t>(needed));
  }
  const std::int64_t segments = (chunk + kSegmentBytes - 1) / kSegmentBytes;
  const auto bytes_of = [&](std::int64_t k) {
    return std::min(kSegmentBytes, chunk - k * kSegmentBytes);
  };
  // Segment k of what peer(i) sent lies in one of two windows of the scratch memory.
  const Tensor scratch = scratch_.tensor({needed / 2}, DType::bfloat16);
  const auto landing = [&](std::int64_t k, int i) {
    const std::int64_t window = k % kWindow * (size_ - 1) * kSegmentBytes;
    return at(scratch, window + (i - 1) * bytes_of(k));
  };
  Messages sent;
  std::array<Messages, kWindow> received;
  const auto post = [&](std::int64_t k) {
    const auto bytes = static_cast<std::size_t>(bytes_of(k));
    const std::uint64_t slot = payload_slot(operation);
    for (int i = 1; i < size_; ++i) {
      received[k % kWindow].emplace_back(wire_, Way::receive, peer(i), slot, landing(k, i), bytes);
      sent.emplace_back(wire_, Way::send, peer(i), slot,
                        at(in, peer(i) * chunk + k * kSegmentBytes), bytes);
    }
  };
  std::vector<const void*> addends(static_cast<std::size_t>(size_));
  const auto sum = [&](std::int64_t k) {
    for (int i = 1; i < size_; ++i) addends[peer(i)] = landing(k, i);
    addends[rank_] = at(in, rank_ * chunk + k * kSegmentBytes);
    const auto count = bytes_of(k) / static_cast<std::int64_t>(size_of(out.dtype()));
    sum_in_rank_order(stream, addends, at(out, k * kSegmentBytes), count, out.dtype(),
                      operation.reduce);
  };
  const auto post_first = [&] {
    for (std::int64_t k = 0; k < std::min(kWindow, segments); ++k) post(k);
  };
  run(operation, post_first, [&] {
    for (std::int64_t k = 0; k < segments; ++k) {
      wait_for(received[k % kWindow]);
      received[k % kWindow].clear();
      sum(k);
      if (k + kWindow < segments) post(k + kWindow);
    }
    wait_for(sent);
  });
}

}  // namespace

std::unique_ptr<Communicator> make_gloo(Context& context, launch::Store& store,
                                        const GlooOptions& options) {
  if (context.world_size == 1) return make_self();
  auto run = std::make_shared<Run>(store, options.timeout, options.connect_timeout);
  const std::string why_not =
      options.transport == Transport::gloo ? "as asked" : share_memory(*run);
  context.shared = run->memory;
  std::vector<int> all(static_cast<std::size_t>(context.world_size));
  std::iota(all.begin(), all.end(), 0);
  if (why_not.empty()) {
    context.transport = "shared memory";
    // Nothing was taken before, so each rank's desk begins where its part does.
    std::vector<std::uint64_t> desks(all.size(), take_desk(*run));
    return on_streams(make_shared_group(context.ledger, std::move(run),
                                        {context.rank, std::move(all), std::move(desks)}));
  }
  if (options.transport == Transport::shared) {
    throw UsageError({.what = "transport shared",
                      .expected = "ranks that share memory",
                      .got = why_not,
                      .hint = "use the transport gloo"});
  }
  context.transport = fmt::format("TCP ({})", why_not);
  return on_streams(std::make_shared<GlooGroup>(context.ledger, open_fabric(std::move(run)),
                                                "world", context.rank, std::move(all)));
}

}  // namespace nanofsdp::comm
