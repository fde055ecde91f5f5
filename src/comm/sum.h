#pragma once

#include <span>

#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief The only loop that adds the numbers of ranks. It fixes their order. So every backend, on
/// CPUs and GPUs and at any timing, gives the same bits as a single process.
///
/// Twins: sum.cpp (CPU), sum.cu (CUDA).

/// Computes each element in float32. If `out` is bfloat16, rounds it once:
///
///     sum: out = ((x0 + x1) + x2) + ...        average: out = (((x0 + x1) + x2) + ...) * (1 / W)
///
/// @param x the numbers of ranks 0 .. W - 1, as many as `out` has; not empty
/// @param dtype the dtype of these numbers: float32 or bfloat16
/// @param out of this dtype, or float32; it may be one of them if it has their dtype, and any other
///        overlap is undefined
void sum_in_rank_order(Stream& stream, std::span<const void* const> x, DType dtype, Tensor out,
                       ReduceOp op);

namespace cuda {
/// The CUDA side, in sum.cu. It does the same, enqueued on `stream`. For more than 64 ranks the
/// stream keeps a table of pointers on the GPU, with 8 bytes for each rank. The ledger does not
/// count it.
void sum_in_rank_order(Stream& stream, std::span<const void* const> x, DType dtype, Tensor out,
                       ReduceOp op);
}  // namespace cuda

}  // namespace nanofsdp::comm
