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
/// @brief Ranks that are processes with a GPU each, talking through NCCL. Only in a build with
/// CUDA: see kCuda (base/cuda.h).
///
/// NCCL's own reduce-scatter passes partial sums from rank to rank. So it adds in an order of its
/// own and rounds bfloat16 at each hop: an error that grows with the number of ranks. A reduction
/// of ours sends each chunk to its owner, and the owner adds the ranks' chunks in float32, in the
/// order of the ranks (sum.h). It moves as many bytes and gives the bits of every other backend,
/// but it needs scratch memory for what the ranks have sent.
///
/// Calls are numbered and named as everywhere, but NCCL does not compare what ranks call: where
/// they disagree they wait for each other, and the error is a timeout that shows a rank's last five
/// calls. It comes when the host waits, for the event itself or for a stream that waits for it.

/// What adds in a reduction: the owner of a chunk, in the order of the ranks; or NCCL, on its ring.
/// The other backends know only the first.
enum class Reduction { ordered, ring };

/// How much of a chunk a rank receives from each peer before it sums: 32 MB of all peers together.
constexpr std::int64_t nccl_window_bytes(int world_size) {
  return (32 << 20) / std::max(1, world_size - 1) / 256 * 256;
}

/// Memory that a group takes in its first ordered reduce_scatter of `chunk_bytes` a rank, from the
/// class `communication`, and keeps: what its peers send, at most 32 MB. Larger chunks later take
/// more. NCCL's ring takes none.
constexpr std::int64_t nccl_scratch_bytes(int world_size, std::int64_t chunk_bytes) {
  return (world_size - 1) * std::min(chunk_bytes, nccl_window_bytes(world_size));
}

/// How long ranks wait for each other, what adds, and whether they share a GPU.
struct NcclOptions {
  /// For a collective to end, from when the host begins to wait for it: what was enqueued before it
  /// counts too.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(300);  ///< for ranks to come
  Reduction reduction = Reduction::ordered;                               ///< what adds
  /// Several ranks on one GPU, which NCCL refuses unless each says that it is a host of its own.
  /// They take turns on the GPU and send through the loopback interface: for tests, on one machine.
  bool share_gpu = false;
};

/// Whether ranks must share GPUs on a machine with so many of both. Only the ranks of the machine
/// count: those of others have other GPUs. 0 ranks: unknown, and then there are several machines.
constexpr bool must_share_gpu(int local_ranks, int gpus) { return local_ranks > gpus; }

/// The group of all ranks of the run. Blocks until all have come. The context, whose device is
/// cuda, and the store must outlive the communicator and every one split from it. When a rank is
/// lost, all operations are aborted. A communicator takes scratch memory for reductions, and 4
/// bytes for a barrier if it has none; what NCCL takes is not in the ledger.
/// @throws UsageError without a GPU  @throws CommError setup
std::unique_ptr<Communicator> make_nccl(Context& context, launch::Store& store,
                                        const NcclOptions& options = {});

}  // namespace nanofsdp::comm
