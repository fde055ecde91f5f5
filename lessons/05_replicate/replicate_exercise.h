#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 05: the gradient of the whole batch, where ranks have unequal shares.
///
/// Collective. Eight rows on three ranks are 2, 3 and 3: the mean of the ranks' means is not the
/// mean of all rows.
///
/// @param stream   of a CPU: what is enqueued on it is done on return
/// @param gradient the mean over this rank's rows; becomes the mean over all rows. Of any length,
///   while Communicator::all_reduce wants a multiple of the number of ranks
/// @param my_rows  of this rank, at least 1
/// @param all_rows of all ranks together
void share_gradient(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                    std::span<float> gradient, std::int64_t my_rows, std::int64_t all_rows);
