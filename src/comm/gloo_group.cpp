#include "comm/gloo_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "comm/self.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Message = GlooWire::Message;
using Messages = Agreement::Messages;
using Way = Message::Way;

// A segment of a reduce_scatter, and how many are under way at once: receiving one while summing
// another. Smaller ones cost more in hand-overs between threads than they hide.
constexpr std::int64_t kSegmentBytes = 1 << 20;
constexpr std::int64_t kWindow = 2;

std::byte* at(const Tensor& x, std::int64_t bytes) {
  return static_cast<std::byte*>(x.raw()) + bytes;
}

}  // namespace

std::int64_t gloo_scratch_bytes(int world_size, std::int64_t chunk_bytes) {
  return (world_size - 1) * std::min(chunk_bytes, kWindow * kSegmentBytes);
}

GlooGroup::GlooGroup(std::shared_ptr<const GlooFabric> fabric, std::string name, int rank, int size)
    : fabric_(std::move(fabric)),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      wire_(connect(*fabric_, name_, rank, size), fabric_->options.timeout) {}

void GlooGroup::run(const Operation& operation, const std::function<void(Agreement&)>& payload) {
  try {
    Agreement agreement(peers(), operation);
    payload(agreement);
  } catch (const WireError& e) {
    throw operation_error(e.kind, rank_, operation, e.what);
  }
}

// Every rank's `bytes` at `in` to chunk `rank` of every rank's `out`.
void GlooGroup::exchange(Agreement& agreement, const void* in, void* out, std::size_t bytes) {
  const Peers peer = peers();
  auto* const chunks = static_cast<std::byte*>(out);
  Messages messages;
  for (int i = 1; i < size_; ++i) {
    messages.emplace_back(wire_, Way::receive, peer(i), agreement.slot(), chunks + peer(i) * bytes,
                          bytes);
    messages.emplace_back(wire_, Way::send, peer(i), agreement.slot(), in, bytes);
  }
  std::byte* const own = chunks + rank_ * bytes;
  if (bytes > 0 && own != in) std::memcpy(own, in, bytes);
  agreement.settle();
  for (Message& message : messages) message.wait();
}

void GlooGroup::all_gather(const Operation& operation, Tensor in, Tensor out) {
  run(operation,
      [&](Agreement& agreement) { exchange(agreement, in.raw(), out.raw(), in.bytes()); });
}

void GlooGroup::reduce_scatter(const Operation& operation, Tensor in, Tensor out) {
  const auto chunk = static_cast<std::int64_t>(out.bytes());
  const std::int64_t needed = gloo_scratch_bytes(size_, chunk);
  if (static_cast<std::int64_t>(scratch_.bytes()) < needed) {
    scratch_ = Buffer();  // first give back, then take
    scratch_ =
        Buffer(*fabric_->ledger, MemoryClass::communication, static_cast<std::size_t>(needed));
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
  run(operation, [&](Agreement& agreement) {
    const Peers peer = peers();
    const std::uint64_t slot = agreement.slot();
    Messages sent;
    std::array<Messages, kWindow> received;
    const auto post = [&](std::int64_t k) {
      const auto bytes = static_cast<std::size_t>(bytes_of(k));
      for (int i = 1; i < size_; ++i) {
        received[k % kWindow].emplace_back(wire_, Way::receive, peer(i), slot, landing(k, i),
                                           bytes);
        sent.emplace_back(wire_, Way::send, peer(i), slot,
                          at(in, peer(i) * chunk + k * kSegmentBytes), bytes);
      }
    };
    for (std::int64_t k = 0; k < std::min(kWindow, segments); ++k) post(k);
    agreement.settle();
    std::vector<const void*> addends(static_cast<std::size_t>(size_));
    for (std::int64_t k = 0; k < segments; ++k) {
      for (Message& message : received[k % kWindow]) message.wait();
      received[k % kWindow].clear();
      for (int i = 1; i < size_; ++i) addends[peer(i)] = landing(k, i);
      addends[rank_] = at(in, rank_ * chunk + k * kSegmentBytes);
      sum_in_rank_order(addends, at(out, k * kSegmentBytes),
                        bytes_of(k) / static_cast<std::int64_t>(size_of(out.dtype())), out.dtype(),
                        operation.reduce);
      if (k + kWindow < segments) post(k + kWindow);
    }
    for (Message& message : sent) message.wait();
  });
}

void GlooGroup::broadcast(const Operation& operation, Tensor x) {
  run(operation, [&](Agreement& agreement) {
    const Peers peer = peers();
    const std::uint64_t slot = agreement.slot();
    Messages messages;
    if (rank_ != operation.root) {
      messages.emplace_back(wire_, Way::receive, operation.root, slot, x.raw(), x.bytes());
    } else {
      for (int i = 1; i < size_; ++i) {
        messages.emplace_back(wire_, Way::send, peer(i), slot, x.raw(), x.bytes());
      }
    }
    agreement.settle();
    for (Message& message : messages) message.wait();
  });
}

void GlooGroup::barrier(const Operation& operation) {
  run(operation, [](Agreement& agreement) { agreement.settle(); });  // that is a barrier
}

std::shared_ptr<Group> GlooGroup::split(const Operation& operation, int color) {
  std::vector<int> colors(static_cast<std::size_t>(size_));
  run(operation,
      [&](Agreement& agreement) { exchange(agreement, &color, colors.data(), sizeof color); });
  const auto size = static_cast<int>(std::count(colors.begin(), colors.end(), color));
  if (size == 1) return make_self_group();
  const auto rank = static_cast<int>(std::count(colors.begin(), colors.begin() + rank_, color));
  return std::make_shared<GlooGroup>(
      fabric_, fmt::format("{}.{}.{}", name_, operation.sequence, color), rank, size);
}

}  // namespace nanofsdp::comm
