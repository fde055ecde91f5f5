#pragma once

#include "base/device.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "fsdp/layout.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The three collectives of FSDP on float32 memory: what is sent has the dtype and order of
/// the wire.
///
/// Everything is enqueued on `stream`, so one wire serves one call after another.

/// Memory that a collective sends from and receives into, where that is not `full` itself.
struct Wire {
  /// The row of all shards. float32, or bfloat16: then what is sent is rounded into it, and what
  /// arrives is widened out of it. Empty: straight from and to the operands.
  Tensor memory{};
  /// Of a layout that copies: whole parameters are copied out of the row, gradients into it. Null:
  /// the row is as the whole.
  const Layout* layout = nullptr;
};

/// full = the ranks' shards.
/// @param group of W ranks; null: nothing is sent, and `shard` is all there is
/// @param shard [n], may be this rank's chunk of `full`  @param full [W * n], or the layout's whole
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full,
                const Wire& wire, const comm::Call& call);

/// The sum or average over ranks, of which each gets its chunk. `full` is written over.
/// @returns this rank's chunk [n], float32: of `full`, or of the wire
Tensor reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                      comm::ReduceOp op, const comm::Call& call);

/// In place: `full` becomes the sum or average over ranks.
void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                comm::ReduceOp op, const comm::Call& call);

}  // namespace nanofsdp::fsdp
