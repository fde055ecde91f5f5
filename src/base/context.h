#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/device.h"
#include "base/shared_memory.h"
#include "base/tracer.h"

namespace nanofsdp {

/// @file
/// @brief The room `base`: what all others stand on. A Context is what belongs to one rank. It is
/// passed down, never global: ranks may be threads of one process.
///
/// Comes in: a rank's number, its device, its threads. Goes out: streams and events that order all
/// work (device.h), memory that is counted by class (buffer.h, ledger.h), tensors that look at it
/// (tensor.h), random numbers (rng.h), spans of time (tracer.h), errors (check.h).

/// One rank's number, device, memory counts, trace and streams. All that is made with a Context
/// ends before it.
struct Context {
  /// @param threads of each stream, on the CPU
  /// @param local_rank among those of this machine, which says which GPU is its own; -1: as `rank`
  /// @throws Error if the machine has no such device
  explicit Context(int rank = 0, int world_size = 1, int threads = 1, Device device = Device::cpu,
                   int local_rank = -1)
      : rank(rank),
        world_size(world_size),
        device(use_device(device, local_rank < 0 ? rank : local_rank)),
        compute(make_compute_stream(device, threads)),
        gather(make_communication_stream(device, threads)),
        reduce(make_communication_stream(device, threads)) {}

  /// A rank on streams of the caller's.
  Context(int rank, int world_size, std::unique_ptr<Stream> compute, std::unique_ptr<Stream> gather,
          std::unique_ptr<Stream> reduce)
      : rank(rank),
        world_size(world_size),
        device(compute->device()),
        compute(std::move(compute)),
        gather(std::move(gather)),
        reduce(std::move(reduce)) {}

  /// Memory of the device for `numel` elements, all zero, which the ledger counts.
  Buffer buffer(MemoryClass memory_class, std::int64_t numel, DType dtype = DType::float32,
                Buffer::Use use = Buffer::Use::whole) {
    return Buffer(ledger, memory_class, static_cast<std::uint64_t>(numel) * size_of(dtype), device,
                  use, shared.get());
  }

  int rank;                              ///< 0 ... world_size - 1
  int world_size;                        ///< ranks of the run
  Device device;                         ///< on which this rank computes
  Ledger ledger;                         ///< counts every Buffer made with it
  std::shared_ptr<SharedMemory> shared;  ///< with the ranks of this machine; null: none is
  std::string transport;                 ///< what carries the bytes between ranks, for people
  Tracer tracer;                         ///< off until start()
  std::int64_t passes = 0;               ///< of tapes, whose masks of dropout no caller has named
  std::unique_ptr<Stream> compute;       ///< operators
  std::unique_ptr<Stream> gather;        ///< all-gathers of parameters
  std::unique_ptr<Stream> reduce;        ///< reductions of gradients
};

}  // namespace nanofsdp
