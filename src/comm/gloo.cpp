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
#include "base/fingerprint.h"
#include "comm/gloo_wire.h"
#include "comm/group.h"
#include "comm/neighbours.h"
#include "comm/self.h"
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

constexpr std::int64_t kPieceBytes = 1 << 18;  // what is read from a neighbour and summed at once

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
  GlooGroup(Ledger& ledger, launch::Store& store, const GlooOptions& options,
            std::shared_ptr<GlooFabric> fabric, std::string name, int rank,
            std::vector<int> members)
      : Group(rank, static_cast<int>(members.size())),
        ledger_(ledger),
        store_(store),
        options_(options),
        fabric_(std::move(fabric)),
        name_(std::move(name)),
        members_(std::move(members)),
        wire_(fabric_, name_, rank, members_),
        neighbours_(store, name_, rank, size_, options.connect_timeout),
        letters_(members_.size()) {}

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
    run(operation, nullptr, post_all, [&] { wait_for(messages); });
  }

  void barrier(Stream&, const Operation& operation) override {
    run(
        operation, nullptr, [] {}, [] {});  // to agree with all is a barrier
  }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    std::vector<int> colors(static_cast<std::size_t>(size_));
    exchange(operation, &color, colors.data(), sizeof color);
    std::vector<int> members;
    for (int i = 0; i < size_; ++i) {
      if (colors[i] == color) members.push_back(members_[i]);
    }
    if (members.size() == 1) return make_self_group();
    const auto rank = static_cast<int>(std::count(colors.begin(), colors.begin() + rank_, color));
    return std::make_shared<GlooGroup>(ledger_, store_, options_, fabric_,
                                       fmt::format("{}.{}.{}", name_, operation.sequence, color),
                                       rank, std::move(members));
  }

  void reduce_scatter(Stream&, const Operation& operation, Tensor in, Tensor out) override;
  void abort(const std::string& reason) noexcept override { wire_.abort(reason); }

 private:
  // What ranks tell each other in every call.
  struct Letter {
    History history;
    std::uint64_t memory = 0;  // where its `in` lies, for neighbours to read
  };

  // The i-th peer, i = 1 .. size - 1: every rank begins with another one.
  int peer(int i) const { return (rank_ + i) % size_; }

  // Tells the peers what this rank calls and hears it from them; meanwhile `post` posts the first
  // messages of the payload, so this costs no round trip. All agree: `rest` does the rest.
  template <class Post, class Rest>
  void run(const Operation& operation, const void* in, const Post& post, const Rest& rest) {
    append(letters_[rank_].history, operation);
    letters_[rank_].memory = reinterpret_cast<std::uintptr_t>(in);
    try {
      Messages calls;
      for (int i = 1; i < size_; ++i) {
        calls.emplace_back(wire_, Way::receive, peer(i), kOperationSlot, &letters_[peer(i)],
                           sizeof(Letter));
        calls.emplace_back(wire_, Way::send, peer(i), kOperationSlot, &letters_[rank_],
                           sizeof(Letter));
      }
      post();
      wait_for(calls);
      for (int i = 1; i < size_; ++i) check_agreement(peer(i));
      rest();
    } catch (const WireError& e) {
      throw operation_error(e.kind, members_[rank_], letters_[rank_].history, e.what);
    }
  }
  static void wait_for(Messages& messages) {
    for (Message& message : messages) message.wait();
  }

  void check_agreement(int peer) {
    const History &mine = letters_[rank_].history, &theirs = letters_[peer].history;
    if (mine.back() == theirs.back()) return;
    // Other peers may agree and be sending: let go of the memory.
    wire_.abort("its ranks disagreed");
    throw mismatch_error(members_[rank_], mine, members_[peer], theirs);
  }

  // Every rank's `bytes` at `in` to chunk `rank` of every rank's `out`.
  void exchange(const Operation& operation, const void* in, void* out, std::size_t bytes) {
    const std::uint64_t slot = payload_slot(operation);
    auto* const chunks = static_cast<std::byte*>(out);
    Messages messages;
    const auto post = [&] {
      for (int i = 1; i < size_ && !reads(bytes); ++i) {
        messages.emplace_back(wire_, Way::receive, peer(i), slot, chunks + peer(i) * bytes, bytes);
        messages.emplace_back(wire_, Way::send, peer(i), slot, in, bytes);
      }
      std::byte* const own = chunks + rank_ * bytes;
      if (bytes > 0 && own != in) std::memcpy(own, in, bytes);
    };
    run(operation, in, post, [&] {
      wait_for(messages);
      if (!reads(bytes)) return;
      for (int i = 1; i < size_; ++i) read(peer(i), 0, chunks + peer(i) * bytes, bytes);
      part(operation);
    });
  }

  // Whether chunks of this size are read from the neighbours' memory, not sent: for small ones, to
  // part once more costs more than the way through a connection.
  bool reads(std::size_t bytes) const {
    return neighbours_.all() && bytes >= static_cast<std::size_t>(options_.read_from_bytes);
  }

  // `bytes` of the rank's `in`, from `offset` on.
  void read(int rank, std::int64_t offset, void* to, std::size_t bytes) {
    const std::uint64_t from = letters_[rank].memory + static_cast<std::uint64_t>(offset);
    if (!neighbours_.read(rank, from, to, bytes)) wire_.lose(rank, "its memory is gone");
  }

  // Waits until all have read from all: until then nobody may touch what the others read.
  void part(const Operation& operation) {
    Messages messages;
    for (int i = 1; i < size_; ++i) {
      for (const Way way : {Way::receive, Way::send}) {
        messages.emplace_back(wire_, way, peer(i), payload_slot(operation), nullptr, 0);
      }
    }
    wait_for(messages);
  }

  void sum_by_reading(const Operation& operation, Tensor in, Tensor out);

  Ledger& ledger_;
  launch::Store& store_;
  const GlooOptions options_;
  const std::shared_ptr<GlooFabric> fabric_;
  const std::string name_;
  const std::vector<int> members_;  // ranks in the run, by which errors name them
  GlooWire wire_;
  const Neighbours neighbours_;
  std::vector<Letter> letters_;  // each rank's, as it says
  Buffer scratch_;               // what peers sent for the sum
};

void GlooGroup::reduce_scatter(Stream&, const Operation& operation, Tensor in, Tensor out) {
  const auto chunk = static_cast<std::int64_t>(out.bytes());
  const std::int64_t needed = gloo_scratch_bytes(size_, chunk);
  if (static_cast<std::int64_t>(scratch_.bytes()) < needed) {
    scratch_ = Buffer();  // first give back, then take
    scratch_ = Buffer(ledger_, MemoryClass::communication, static_cast<std::size_t>(needed));
  }
  if (reads(out.bytes())) return sum_by_reading(operation, in, out);
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
    sum_in_rank_order(addends, at(out, k * kSegmentBytes), count, out.dtype(), operation.reduce);
  };
  const auto post_first = [&] {
    for (std::int64_t k = 0; k < std::min(kWindow, segments); ++k) post(k);
  };
  run(operation, nullptr, post_first, [&] {
    for (std::int64_t k = 0; k < segments; ++k) {
      wait_for(received[k % kWindow]);
      received[k % kWindow].clear();
      sum(k);
      if (k + kWindow < segments) post(k + kWindow);
    }
    wait_for(sent);
  });
}

// In pieces that stay in the cache between the copy and the sum.
void GlooGroup::sum_by_reading(const Operation& operation, Tensor in, Tensor out) {
  const auto chunk = static_cast<std::int64_t>(out.bytes());
  const Tensor scratch =
      scratch_.tensor({static_cast<std::int64_t>(scratch_.bytes()) / 2}, DType::bfloat16);
  const std::int64_t piece = std::min(kPieceBytes, chunk);
  const auto landing = [&](int i) { return at(scratch, (i - 1) * piece); };
  std::vector<const void*> addends(static_cast<std::size_t>(size_));
  for (int i = 1; i < size_; ++i) addends[peer(i)] = landing(i);
  run(
      operation, in.raw(), [] {},
      [&] {
        for (std::int64_t from = 0; from < chunk; from += piece) {
          const std::int64_t offset = rank_ * chunk + from, bytes = std::min(piece, chunk - from);
          for (int i = 1; i < size_; ++i) {
            read(peer(i), offset, landing(i), static_cast<std::size_t>(bytes));
          }
          addends[rank_] = at(in, offset);
          sum_in_rank_order(addends, at(out, from),
                            bytes / static_cast<std::int64_t>(size_of(out.dtype())), out.dtype(),
                            operation.reduce);
        }
        part(operation);
      });
}

}  // namespace

std::unique_ptr<Communicator> make_gloo(Context& context, launch::Store& store,
                                        const GlooOptions& options) {
  if (context.world_size == 1) return make_self();
  std::vector<int> all(static_cast<std::size_t>(context.world_size));
  std::iota(all.begin(), all.end(), 0);
  return on_streams(std::make_shared<GlooGroup>(context.ledger, store, options,
                                                open_fabric(store, options), "world", context.rank,
                                                std::move(all)));
}

}  // namespace nanofsdp::comm
