#pragma once

#include "base/device.h"
#include "base/tensor.h"
#include "comm/communicator.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The three collectives of FSDP on float32 memory, in the precision of the wire.
///
/// `wire` is bfloat16 memory to travel through, as long as the whole row: what is sent is rounded
/// into it, what arrives is widened out of it. An empty one means float32, straight from and to the
/// operands. Everything is enqueued on `stream`, so one wire serves one call after another.
/// Parameters may also stay bfloat16 where they land: then `full` is the wire.

/// full = the ranks' shards.
/// @param group of W ranks; null: nothing travels, and `shard` is all there is
/// @param shard [n], may be this rank's chunk of `full`  @param full [W * n]
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full, Tensor wire,
                const comm::Call& call);

/// In place: this rank's chunk of `full` becomes that of the sum or average over ranks.
void reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                    comm::ReduceOp op, const comm::Call& call);

/// In place: `full` becomes the sum or average over ranks.
void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, Tensor wire,
                comm::ReduceOp op, const comm::Call& call);

/// The chunk of `whole` that is this rank's.
Tensor own_chunk(const comm::Communicator& group, const Tensor& whole);

}  // namespace nanofsdp::fsdp
