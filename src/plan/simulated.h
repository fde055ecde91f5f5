#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/context.h"
#include "base/cost.h"
#include "comm/mesh.h"

namespace nanofsdp::plan {

/// @file
/// @brief A device without memory and without arithmetic, which records the work that is issued on
/// it.
///
/// A buffer on this device is an entry of the ledger and an address that cannot be read; tensors
/// have shapes, but no values. The device does not do the work, but records its cost. So a program
/// runs unchanged and issues the same work in the same order. It leaves a log that a clock can play
/// at the speed of any machine (plan/clock.h). The host reads back zeros.
///
/// There are two such devices, because a program issues different work on a CPU and on a GPU. A
/// simulated rank has no peers: its collectives are counted and have their cost, but move nothing.
/// So neither memory nor time grows with the number of ranks.

/// Streams of a rank, numbered: 0 computes, 1 gathers, 2 reduces.
inline constexpr int kStreams = 3;

/// One call of the main thread.
struct Issued {
  /// The kinds of calls.
  enum class Kind {
    work,   ///< work for the stream
    wait,   ///< later work of the stream comes after `point` of stream `awaited`
    block,  ///< the main thread waits for `point` of stream `awaited`
    note    ///< when the stream comes here, the time is written to `when`
  };
  Kind kind = Kind::work;  ///< kind of the call
  int stream = 0;          ///< 0: computes, 1: gathers, 2: reduces
  Cost cost{};             ///< cost of the work
  int awaited = 0;         ///< number of a stream
  std::size_t point = 0;   ///< all that was issued on it up to this number of the log, from 1
  double* when = nullptr;  ///< outlives the log
};

/// The calls of one rank, in order. One thread writes it.
struct IssueLog {
  /// Adds a call at the end.
  void add(const Issued& one) {
    products += one.cost.products + one.cost.attention;
    if (keeps) issued.push_back(one);
  }
  std::deque<Issued> issued{};  ///< number 1 comes first
  double products = 0;          ///< floating-point operations of all matrix products
  bool keeps = true;            ///< if false, it only adds up products
};

/// A rank of a run on a simulated device, and its log. The log is constructed first, because the
/// streams need it.
struct SimulatedRank : IssueLog, Context {
  /// @param threads threads of its compute stream
  /// @param device simulated_cpu or simulated_cuda
  SimulatedRank(int rank, int ranks, int threads, Device device);
};

/// Returns the bytes that a backend keeps for sums, for a group of `ranks` ranks and a chunk of
/// `chunk_bytes` bytes. `first` and `last` are the group's first and last rank, by their numbers in
/// the run. An empty function stands for no memory.
using Scratch = std::function<std::uint64_t(int ranks, int first, int last, std::int64_t chunk)>;

/// Makes the mesh of a rank on a simulated device.
/// @param context outlives the mesh
/// @param shard_size, post_forward_size see comm::Mesh
/// @param scratch memory that its collectives take in addition
/// @param tensor_size see comm::Mesh
/// @throws UsageError as comm::Mesh
comm::Mesh make_simulated_mesh(Context& context, int shard_size = 0, int post_forward_size = 0,
                               const Scratch& scratch = {}, int tensor_size = 1);

}  // namespace nanofsdp::plan
