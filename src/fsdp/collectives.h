#pragma once

#include "comm/communicator.h"
#include "fsdp/layout.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The three collectives of FSDP. Their operands are float32. The elements that they send
/// have the dtype and the order of the wire.
///
/// All work is enqueued on `stream`. So one wire can serve one call after another.

/// The memory that a collective sends from and receives into, if it cannot use `full` itself.
struct Wire {
  /// The row of all shards. If it is bfloat16 or float8_e4m3, a collective rounds into it before it
  /// sends, and widens the elements that have arrived. If it is empty, the collective uses its
  /// operands directly.
  Tensor memory{};
  /// If it is set, the layout's row and its whole differ: whole parameters are copied out of the
  /// row, and whole gradients into it.
  const Layout* layout = nullptr;
  /// The elements of a shard, if the row is float8_e4m3: then each shard is one message.
  std::int64_t shard_numel = 0;
};

/// Writes the shards of all ranks to `full`.
/// @param group W ranks; null if nothing is sent, because `shard` has all elements
/// @param shard [n]; it may be this rank's chunk of `full`
/// @param full [W * n], or the layout's whole
void all_gather(Stream& stream, comm::Communicator* group, Tensor shard, Tensor full,
                const Wire& wire, const comm::Call& call);

/// Sums or averages `full` over the ranks, and gives each rank its chunk of the result. `full` is
/// overwritten.
/// @returns this rank's chunk, float32 [n], not rounded; it lies in `full` or in the wire
Tensor reduce_scatter(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                      comm::ReduceOp op, const comm::Call& call);

/// Replaces `full` by its sum or average over the ranks.
void all_reduce(Stream& stream, comm::Communicator& group, Tensor full, const Wire& wire,
                comm::ReduceOp op, const comm::Call& call);

}  // namespace nanofsdp::fsdp
