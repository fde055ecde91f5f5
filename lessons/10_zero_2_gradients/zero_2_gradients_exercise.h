#pragma once

#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 10: reduces the gradient of a unit after its backward. All ranks call it
/// together.
///
/// Each rank has its own `whole`. The rank's chunk of it is the elements [r * s, (r + 1) * s). The
/// function averages this chunk over all ranks. In the first micro-batch of a step, the shard
/// becomes this average; in the later ones, the average is added to the shard. At the end, `whole`
/// is filled with zeros, because the next unit borrows this memory and its backward adds to it.
///
/// Tensor(data, {n}) is a view of n floats, with a signed n such as std::ssize(span);
/// tensor.slice(begin, count) is a view of a part (lesson 09).
///
/// @param stream a CPU stream: when a collective has returned, it is done
/// @param world  rank() is r and size() is W; its reduce_scatter(stream, in, out,
///   nanofsdp::comm::ReduceOp::average) may write into the rank's chunk of `in`
/// @param whole  [W * s], this rank's gradient of the unit
/// @param shard  [s], this rank's gradient shard; before the first micro-batch it holds NaN
/// @param first  whether this is the first micro-batch of the step
void reduce_gradient(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                     std::span<float> whole, std::span<float> shard, bool first);
