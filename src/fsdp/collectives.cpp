#include "fsdp/collectives.h"

#include "ops/cast.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {

Tensor own_chunk(const comm::Communicator& group, const Tensor& whole) {
  const std::int64_t n = whole.numel() / group.size();
  return whole.slice(group.rank() * n, n);
}

//! [all_gather]
void all_gather(Stream& stream, comm::Communicator& group, Tensor shard, Tensor full, Tensor wire,
                const comm::Call& call) {
  if (wire.empty()) {
    group.all_gather(stream, shard, full, call);
    return;
  }
  const Tensor mine = own_chunk(group, wire);
  ops::cast(stream, {.in = shard, .out = mine});
  group.all_gather(stream, mine, wire, call);
  if (full.dtype() != wire.dtype()) ops::cast(stream, {.in = wire, .out = full});
}
//! [all_gather]

void reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                    comm::ReduceOp op, const comm::Call& call) {
  if (wire.empty()) {
    group.reduce_scatter(stream, full, own_chunk(group, full), op, call);
    return;
  }
  ops::cast(stream, {.in = full, .out = wire});
  group.reduce_scatter(stream, wire, own_chunk(group, wire), op, call);
  ops::cast(stream, {.in = own_chunk(group, wire), .out = own_chunk(group, full)});
}

void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                comm::ReduceOp op, const comm::Call& call) {
  if (wire.empty()) {
    group.all_reduce(stream, full, op, call);
    return;
  }
  ops::cast(stream, {.in = full, .out = wire});
  group.all_reduce(stream, wire, op, call);
  ops::cast(stream, {.in = wire, .out = full});
}

void round_to_wire(Stream& stream, Tensor in, Tensor out, Tensor wire) {
  if (wire.empty()) return ops::copy(stream, {.in = in, .out = out});
  ops::cast(stream, {.in = in, .out = wire});
  if (out.dtype() != wire.dtype()) ops::cast(stream, {.in = wire, .out = out});
}

}  // namespace nanofsdp::fsdp
