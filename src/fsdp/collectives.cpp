#include "fsdp/collectives.h"

#include "ops/cast.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

// Rounds into the wire, or widens out of it. Two operands of one dtype are the same memory.
void convert(Stream& stream, Tensor in, Tensor out) {
  if (in.dtype() != out.dtype()) ops::cast(stream, {.in = in, .out = out});
}

}  // namespace

Tensor own_chunk(const comm::Communicator& group, const Tensor& whole) {
  const std::int64_t n = whole.numel() / group.size();
  return whole.slice(group.rank() * n, n);
}

//! [all_gather]
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full, Tensor wire,
                const comm::Call& call) {
  const Tensor received = wire.empty() ? full : wire;
  const Tensor chunk = group == nullptr ? received : own_chunk(*group, received);
  const Tensor sent = wire.empty() ? shard : chunk;
  convert(stream, shard, sent);
  if (group != nullptr) group->all_gather(stream, sent, received, call);
  convert(stream, received, full);
}
//! [all_gather]

void reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                    comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.empty() ? full : wire;
  const Tensor received = own_chunk(group, sent);
  convert(stream, full, sent);
  group.reduce_scatter(stream, sent, received, op, call);
  convert(stream, received, own_chunk(group, full));
}

void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                comm::ReduceOp op, const comm::Call& call) {
  const Tensor sent = wire.empty() ? full : wire;
  convert(stream, full, sent);
  group.all_reduce(stream, sent, op, call);
  convert(stream, sent, full);
}

}  // namespace nanofsdp::fsdp
