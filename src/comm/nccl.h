#pragma once

#include <chrono>
#include <memory>

#include "base/context.h"
#include "comm/communicator.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are processes with a GPU each, talking through NCCL. Only in a build with
/// CUDA: see kCuda (base/cuda.h).
///
/// NCCL adds in an order of its own, the same on every run of the same ranks, and rounds bfloat16
/// at each hop: sums are close to those of the other backends, not equal.
///
/// Calls are numbered and named as everywhere, but NCCL does not compare what ranks call: where
/// they disagree they wait for each other, and the error is a timeout that shows a rank's last five
/// calls. It comes when the host waits, for the event itself or for a stream that waits for it.

/// How long ranks wait for each other, and whether they share a GPU.
struct NcclOptions {
  /// For a collective to end, from when the host begins to wait for it: what was enqueued before it
  /// counts too.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(300);  ///< for ranks to come
  /// Several ranks on one GPU, which NCCL refuses unless each says that it is a host of its own.
  /// They take turns on the GPU and send through the loopback interface: for tests, on one machine.
  bool share_gpu = false;
};

/// Whether ranks must share GPUs on a machine with so many of both. Only the ranks of the machine
/// count: those of others have other GPUs. 0 ranks: unknown, and then there are several machines.
constexpr bool must_share_gpu(int local_ranks, int gpus) { return local_ranks > gpus; }

/// The group of all ranks of the run. Blocks until all have come. The context, whose device is
/// cuda, and the store must outlive the communicator and every one split from it. When a rank is
/// lost, all operations are aborted. A communicator takes 4 bytes of the class `communication` for
/// its first barrier; what NCCL takes is not in the ledger.
/// @throws UsageError without a GPU  @throws CommError setup
std::unique_ptr<Communicator> make_nccl(Context& context, launch::Store& store,
                                        const NcclOptions& options = {});

}  // namespace nanofsdp::comm
