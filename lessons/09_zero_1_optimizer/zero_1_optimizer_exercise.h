#pragma once

#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 09: one step of gradient descent with momentum, where each rank stores
/// only its shard of the momentum.
///
///     momentum = 0.9 * momentum + gradient          parameter -= lr * momentum
///
/// `gradient` here is the average over all ranks. Rank r updates the elements [r * s, (r + 1) * s)
/// and no others; at the end, each rank must have all of the updated parameters. All ranks call
/// this function together.
///
/// Collectives take tensors, not spans. Tensor(data, {n}) is a view of the n floats at the pointer
/// `data`; n is a signed number, such as std::ssize(span). tensor.slice(begin, count) is a view of
/// a part of them.
///
/// @param stream     a CPU stream: when a collective has returned, it is done
/// @param world      rank() is r and size() is W. Its collectives: all_gather(stream, in, out) and
///   reduce_scatter(stream, in, out, nanofsdp::comm::ReduceOp::average). `in` and `out` are one
///   shard and the whole: the shard may be a slice of the whole, at this rank's place
/// @param parameters [W * s], the same on each rank before and after the call
/// @param gradient   [W * s], from this rank's part of the batch; may be overwritten
/// @param momentum   [s], of this rank's shard: momentum[0] belongs to element r * s
/// @param lr         the learning rate
void sharded_momentum_step(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                           std::span<float> parameters, std::span<float> gradient,
                           std::span<float> momentum, float lr);
