#pragma once

#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 10: what happens to a unit's whole gradient when it is complete.
///
/// Collective. The shard gets the average over ranks of the rank's own chunk: it becomes that in
/// the first micro-batch of a step, and is added to in the others. Then the whole gradient is
/// zeros again: backward of the next unit, which borrows the memory, adds to it.
///
/// @param stream of a CPU: what is enqueued on it is done on return
/// @param whole  [W * s], this rank's gradient of the unit
/// @param shard  [s], of rank world.rank(); holds anything before the first micro-batch
/// @param first  whether this is the first micro-batch of the step
void reduce_gradient(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                     std::span<float> whole, std::span<float> shard, bool first);
