#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

/// The exercise of lesson 05: the gradient of the whole batch, when ranks have unequal numbers of
/// rows. Eight rows on three ranks are 2, 3 and 3. The mean of the three means is then not the mean
/// over all rows.
///
/// All ranks call this function together.
///
/// @param stream   pass it to world.all_reduce(stream, tensor, nanofsdp::comm::ReduceOp::sum); on
///   this stream the all-reduce is finished when the call returns
/// @param world    all ranks; world.size() is W. The tensor of its all_reduce must have a multiple
///   of W elements. nanofsdp::Tensor(x.data(), {std::ssize(x)}) is a view of all floats of x, a
///   vector or a span
/// @param gradient the mean over this rank's rows; becomes the mean over all rows. It may have any
///   number of elements, also 0
/// @param my_rows  rows of this rank, at least 1
/// @param all_rows rows of all ranks together
void share_gradient(nanofsdp::Stream& stream, nanofsdp::comm::Communicator& world,
                    std::span<float> gradient, std::int64_t my_rows, std::int64_t all_rows);
