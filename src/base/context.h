#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/tracer.h"

namespace nanofsdp {

/// @file
/// @brief The room `base`: what all other rooms stand on. A Context has everything that belongs to
/// one rank. It is passed down and never global, because ranks may be threads of one process.
///
/// Comes in: a rank's number, its device, its threads. Goes out: streams and events that order all
/// work (device.h), memory that is counted by class (buffer.h, ledger.h), tensors that look at it
/// (tensor.h), random numbers (rng.h), spans of time (tracer.h), errors (check.h).

/// A rank's number, device, memory counts, trace and streams. It must outlive all that is made with
/// it.
struct Context {
  /// @param threads how many threads each stream uses, on a CPU
  /// @param local_rank the number of this rank on its machine, which decides its GPU; -1: `my_rank`
  /// @throws Error if the machine has no such device
  explicit Context(int my_rank = 0, int ranks = 1, int threads = 1, Device on = Device::cpu,
                   int local_rank = -1)
      // Arguments in braces are evaluated in order, so the device is in use before there are
      // streams.
      : Context{my_rank, ranks,
                make_compute_stream(use_device(on, local_rank < 0 ? my_rank : local_rank), threads),
                make_communication_stream(on, threads), make_communication_stream(on, threads)} {}

  /// Makes a rank that uses the caller's streams.
  Context(int my_rank, int ranks, std::unique_ptr<Stream> computing,
          std::unique_ptr<Stream> gathering, std::unique_ptr<Stream> reducing)
      : rank(my_rank),
        world_size(ranks),
        device(computing->device()),
        compute(std::move(computing)),
        gather(std::move(gathering)),
        reduce(std::move(reducing)) {}

  /// Allocates memory for `numel` elements on the device. They are zero, and the ledger counts
  /// them.
  /// @throws ShapeError if no Shape has this number of elements; Error if there is not enough
  /// memory
  Buffer buffer(MemoryClass memory_class, std::int64_t numel, DType dtype = DType::float32,
                Buffer::Use use = Buffer::Use::whole) {
    const auto elements = static_cast<std::uint64_t>(Shape{numel}.numel());
    return Buffer(ledger, memory_class, elements * size_of(dtype), device, use, shared.get());
  }

  int rank;                              ///< 0 ... world_size - 1
  int world_size;                        ///< the number of ranks of the run
  Device device;                         ///< the device on which this rank computes
  Ledger ledger;                         ///< counts every Buffer of this rank
  std::shared_ptr<SharedMemory> shared;  ///< memory that the machine's ranks share; null: none
  std::string transport;                 ///< for people: what carries the bytes between ranks
  Tracer tracer;                         ///< it is off until start()
  std::int64_t passes = 0;               ///< how many passes had masks of dropout without a key
  std::unique_ptr<Stream> compute;       ///< runs operators
  std::unique_ptr<Stream> gather;        ///< runs all-gathers of parameters
  std::unique_ptr<Stream> reduce;        ///< runs reductions of gradients
};

}  // namespace nanofsdp
