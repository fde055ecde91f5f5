#include "fsdp/collectives.h"

#include "ops/cast.h"
#include "ops/copy_chunks.h"

namespace nanofsdp::fsdp {
namespace {

// Rounds, or widens. Two operands of one dtype are the same memory.
void convert(Stream& stream, Tensor in, Tensor out) {
  if (in.dtype() != out.dtype()) ops::cast(stream, {.in = in, .out = out});
}

Tensor own_chunk(const comm::Communicator& group, const Tensor& row) {
  const std::int64_t n = row.numel() / group.size();
  return row.slice(group.rank() * n, n);
}

//! [copies]
// Calls copy(parameter, its chunk) with the tensors of each parameter: from its first piece on in
// the row, and whole.
template <class Copy>
void for_each_parameter(const Layout& layout, Tensor row, Tensor whole, const Copy& copy) {
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::int64_t begin = layout.piece(i, 0).in_shard.begin;
    const Range at = layout.in_whole(i);
    if (at.empty()) continue;
    copy(row.slice(begin, row.numel() - begin), whole.slice(at.begin, at.size()), layout.chunk(i));
  }
}

// whole = the row that has arrived, each parameter in one piece.
void copy_out(Stream& stream, const Layout* layout, Tensor row, Tensor whole) {
  if (layout == nullptr) return convert(stream, row, whole);
  for_each_parameter(*layout, row, whole, [&](Tensor pieces, Tensor parameter, std::int64_t chunk) {
    ops::copy_chunks(stream, {.in = pieces,
                              .out = parameter,
                              .numel = parameter.numel(),
                              .chunk = chunk,
                              .in_stride = layout->shard_numel(),
                              .out_stride = chunk});
  });
}

// The row that is to travel = whole, each parameter in W pieces.
void copy_in(Stream& stream, const Layout* layout, Tensor whole, Tensor row) {
  if (layout == nullptr) return convert(stream, whole, row);
  for_each_parameter(*layout, row, whole, [&](Tensor pieces, Tensor gradient, std::int64_t chunk) {
    ops::copy_chunks(stream, {.in = gradient,
                              .out = pieces,
                              .numel = gradient.numel(),
                              .chunk = chunk,
                              .in_stride = chunk,
                              .out_stride = layout->shard_numel()});
  });
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
  copy_out(stream, wire.layout, received, full);
}
//! [all_gather]

Tensor reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                      comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.memory.empty() ? full : wire.memory;
  const Tensor received = own_chunk(group, sent);
  copy_in(stream, wire.layout, full, sent);
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
