#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/context.h"
#include "comm/communicator.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are processes with a GPU each, which communicate through NCCL. Only in a build
/// with CUDA: see kCuda (base/cuda.h).
///
/// NCCL's own reduce-scatter passes partial sums from rank to rank. So it adds in an order of its
/// own and rounds bfloat16 at each hop: an error that grows with the number of ranks. A reduction
/// of ours sends each chunk to its owner, and the owner adds the ranks' chunks in float32, in the
/// order of the ranks (sum.h). It sends the same number of bytes as NCCL's, and gives the same bits
/// as every other backend. But it needs scratch memory for the chunks that arrive.
///
/// Calls are numbered and named as in every backend, but NCCL does not compare the calls of ranks.
/// If ranks disagree, they wait for each other until a timeout, and the error shows the last five
/// calls of the rank. The error is thrown when the host waits for the event, or for a stream that
/// waits for the event.

/// The place where a reduction adds: at the owner of a chunk, in the order of the ranks; or in
/// NCCL's ring. The other backends have only the first. If the ring's sum of bfloat16 numbers is to
/// arrive in float32, it stands in the rank's own chunk of `in` before, and overwrites it.
enum class Reduction { ordered, ring };

/// The part of a chunk that a rank receives from each peer before it adds: 32 MB from all peers
/// together.
constexpr std::int64_t nccl_window_bytes(int world_size) {
  return (32 << 20) / std::max(1, world_size - 1) / 256 * 256;
}

/// The memory that a group allocates in its first ordered reduce_scatter of `chunk_bytes` for each
/// rank, in the class `communication`. It holds the chunks of peers, at most 32 MB, and the group
/// keeps it. A later reduce_scatter of larger chunks may allocate more. NCCL's ring needs none.
constexpr std::int64_t nccl_scratch_bytes(int world_size, std::int64_t chunk_bytes) {
  return (world_size - 1) * std::min(chunk_bytes, nccl_window_bytes(world_size));
}

/// How long ranks wait for each other, where reductions add, and whether ranks share a GPU.
struct NcclOptions {
  /// The time in which a collective must end, from when the host begins to wait for it. Work that
  /// was enqueued before the collective counts too.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Until all ranks have come.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(300);
  Reduction reduction = Reduction::ordered;  ///< place where reductions add
  /// Whether several ranks may share one GPU. NCCL refuses that unless each rank says that it is a
  /// host of its own. The ranks then take turns on the GPU and send through the loopback interface.
  /// This is for tests on one machine.
  bool share_gpu = false;
};

/// Whether the ranks of a machine must share its GPUs.
/// @param local_ranks ranks on this machine; 0: unknown, and then there are several machines
constexpr bool must_share_gpu(int local_ranks, int gpus) { return local_ranks > gpus; }

/// Makes the group of all ranks of the run, and blocks until all have come. The device of the
/// context must be cuda. The context and the store must outlive the communicator, and all
/// communicators that are split from it. If a rank is lost, all operations are aborted. A
/// communicator allocates scratch memory for reductions, or 4 bytes for a barrier. The ledger does
/// not count NCCL's own memory.
/// @throws UsageError without a GPU  @throws CommError setup
std::unique_ptr<Communicator> make_nccl(Context& context, launch::Store& store,
                                        const NcclOptions& options = {});

}  // namespace nanofsdp::comm
