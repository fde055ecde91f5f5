#pragma once

#include <cstdint>
#include <span>

#include "base/device.h"
#include "base/dtype.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief The one loop that adds what ranks sent: it fixes the order, so that every backend, on
/// CPUs and GPUs, at any timing, gives the bits of a single process.
///
/// Twins: sum.cpp (CPU), sum.cu (CUDA).

/// For each element, in float32, rounded to the dtype once:
///
///     sum: out = ((x0 + x1) + x2) + ...        average: out = (((x0 + x1) + x2) + ...) * (1 / W)
///
/// @param x what ranks 0 .. W - 1 contribute, `count` elements each; not empty
/// @param out may be one of them; any other overlap is undefined
/// @param dtype float32 or bfloat16
void sum_in_rank_order(Stream& stream, std::span<const void* const> x, void* out,
                       std::int64_t count, DType dtype, ReduceOp op);

namespace cuda {
/// The CUDA side, in sum.cu: the same, enqueued on `stream`. For more than 64 ranks the stream
/// keeps a table of pointers on the GPU, 8 bytes a rank, which the ledger does not know.
void sum_in_rank_order(Stream& stream, std::span<const void* const> x, void* out,
                       std::int64_t count, DType dtype, ReduceOp op);
}  // namespace cuda

}  // namespace nanofsdp::comm
