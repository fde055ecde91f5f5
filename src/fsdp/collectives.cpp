#include "fsdp/collectives.h"

#include "ops/copy_chunks.h"

namespace nanofsdp::fsdp {
namespace {

// Rounds or widens, if the dtypes differ. If they are equal, `in` and `out` are the same memory.
void convert(Stream& stream, const Wire& wire, Tensor in, Tensor out) {
  if (in.dtype() != out.dtype()) ops::cast(stream, {in, out, wire.shard_numel});
}

//! [copies]
// Copies from the row to the whole, or back. Without a layout the elements keep their order. With a
// layout, the chunks of a parameter lie a shard apart in the row, and end to end in the whole.
void copy(Stream& stream, const Wire& wire, Tensor row, Tensor whole, bool into_row) {
  if (!wire.layout) return convert(stream, wire, into_row ? whole : row, into_row ? row : whole);
  const Layout& layout = *wire.layout;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Range at = layout.in_whole(i);
    ops::copy_chunks(stream, {.row = row,
                              .whole = whole.slice(at.begin, at.size()),
                              .first = layout.piece(i, 0).in_shard.begin,
                              .chunk = layout.chunk(i),
                              .stride = layout.shard_numel(),
                              .into_row = into_row});
  }
}
//! [copies]

}  // namespace

//! [all_gather]
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full,
                const Wire& wire, const comm::Call& call) {
  const Tensor received = wire.memory.empty() ? full : wire.memory;
  const Tensor chunk = group == nullptr ? received : group->own_chunk(received);
  const Tensor sent = shard.dtype() == chunk.dtype() ? shard : chunk;
  convert(stream, wire, shard, sent);
  if (group != nullptr) group->all_gather(stream, sent, received, call);
  copy(stream, wire, received, full, /*into_row=*/false);
}
//! [all_gather]

Tensor reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                      comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.memory.empty() ? full : wire.memory;
  copy(stream, wire, sent, full, /*into_row=*/true);
  // The sum is float32, so it cannot be written over numbers that were sent as bfloat16.
  const bool rounded = sent.dtype() != full.dtype();
  const Tensor own = group.own_chunk(rounded && !wire.layout ? full : sent);
  const Tensor sum = rounded && wire.layout ? full.slice(0, own.numel()) : own;
  group.reduce_scatter(stream, sent, sum, op, call);
  return sum;
}

void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.memory.empty() ? full : wire.memory;
  convert(stream, wire, full, sent);
  group.all_reduce(stream, sent, full, op, call);
}

}  // namespace nanofsdp::fsdp
