#pragma once

#include <string>
#include <vector>

/// The exercise of lesson 11: the events of one pass through a model, in their order. Some blocks
/// are called several times.
///
///     U.x   the parameters of unit x are gathered      R.x   they are discarded
///     RS.x  the gradient of unit x is reduced
///
/// The units are "root" (the whole model) and the blocks "h.0", "h.1", ... in it. The model's
/// forward calls blocks one after another, as `calls` says: {0, 1, 0} calls h.0, then h.1, then h.0
/// again, with the same parameters. Backward goes through the same calls from the last to the
/// first. Each call of a block, in forward and in backward, gathers the block before and discards
/// it after.
///
/// The gradient of a block is reduced once in a step: after the last backward of the block, because
/// it is not complete before. Nothing is prefetched.
///
/// @param calls    numbers of blocks, at least one call; no number is left out between 0 and the
///   largest
/// @param training true: forward and backward. false: an evaluation, which is forward alone; at its
///   end the root is discarded too
/// @return the events with one space between two of them: "U.root U.h.0 R.h.0 ..."
std::string events_of(const std::vector<int>& calls, bool training);
