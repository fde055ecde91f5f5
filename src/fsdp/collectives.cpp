#include "fsdp/collectives.h"

#include <utility>

#include "ops/copy_chunks.h"

namespace nanofsdp::fsdp {
namespace {

// Rounds or widens, if the dtypes differ. If they are equal, `in` and `out` are the same memory.
void convert(Stream& stream, Tensor in, Tensor out) {
  if (in.dtype() != out.dtype()) ops::cast(stream, {.in = in, .out = out});
}

Tensor own_chunk(const comm::Communicator& group, const Tensor& row) {
  const std::int64_t n = row.numel() / group.size();
  return row.slice(group.rank() * n, n);
}

//! [copies]
// Copies from the row to the whole, or back. Without a layout the elements keep their order. With a
// layout, the chunks of a parameter lie a shard apart in the row, and end to end in the whole.
void copy(Stream& stream, const Layout* layout, Tensor row, Tensor whole, bool into_row) {
  if (!layout) return into_row ? convert(stream, whole, row) : convert(stream, row, whole);
  for (std::size_t i = 0; i < layout->parameters().size(); ++i) {
    const Range at = layout->in_whole(i);
    if (at.empty()) continue;
    const std::int64_t begin = layout->piece(i, 0).in_shard.begin;
    ops::CopyChunks copy{.in = row.slice(begin, row.numel() - begin),
                         .out = whole.slice(at.begin, at.size()),
                         .numel = at.size(),
                         .chunk = layout->chunk(i),
                         .in_stride = layout->shard_numel(),
                         .out_stride = layout->chunk(i)};
    if (into_row) {
      std::swap(copy.in, copy.out);
      std::swap(copy.in_stride, copy.out_stride);
    }
    ops::copy_chunks(stream, copy);
  }
}
//! [copies]

}  // namespace

//! [all_gather]
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full,
                const Wire& wire, const comm::Call& call) {
  const Tensor received = wire.memory.empty() ? full : wire.memory;
  const Tensor chunk = group == nullptr ? received : own_chunk(*group, received);
  const Tensor sent = shard.dtype() == chunk.dtype() ? shard : chunk;
  convert(stream, shard, sent);
  if (group != nullptr) group->all_gather(stream, sent, received, call);
  copy(stream, wire.layout, received, full, /*into_row=*/false);
}
//! [all_gather]

Tensor reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                      comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.memory.empty() ? full : wire.memory;
  const Tensor received = own_chunk(group, sent);
  copy(stream, wire.layout, sent, full, /*into_row=*/true);
  group.reduce_scatter(stream, sent, received, op, call);
  if (received.dtype() == full.dtype()) return received;
  const std::int64_t n = received.numel();
  const Tensor widened = full.slice(wire.layout == nullptr ? group.rank() * n : 0, n);
  convert(stream, received, widened);
  return widened;
}

void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.memory.empty() ? full : wire.memory;
  convert(stream, full, sent);
  group.all_reduce(stream, sent, op, call);
  convert(stream, sent, full);
}

}  // namespace nanofsdp::fsdp
