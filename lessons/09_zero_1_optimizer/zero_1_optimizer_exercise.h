#pragma once

#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 09: a step of gradient descent with momentum, its state sharded.
///
///     momentum = 0.9 * momentum + gradient          parameter -= lr * momentum
///
/// Collective. The gradient is that of all ranks, averaged; every rank ends with all of the new
/// parameters.
///
/// @param stream     of a CPU: what is enqueued on it is done on return
/// @param parameters [W * s], the same on every rank
/// @param gradient   [W * s], of this rank's rows; may be overwritten
/// @param momentum   [s], of the shard of rank world.rank(), elements [rank * s, (rank + 1) * s)
void sharded_momentum_step(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                           std::span<float> parameters, std::span<float> gradient,
                           std::span<float> momentum, float lr);
