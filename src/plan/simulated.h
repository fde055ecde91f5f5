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
  /// What the call was.
  enum class Kind {
    work,   ///< work for the stream
    wait,   ///< what the stream does later comes after `point` of stream `awaited`
    block,  ///< the main thread waits for `point` of stream `awaited`
    note    ///< the time when the stream comes here is to be written to `when`
  };
  Kind kind = Kind::work;  ///< which
  int stream = 0;          ///< 0: computes, 1: gathers, 2: reduces
  Cost cost{};             ///< of work
  int awaited = 0;         ///< number of a stream
  std::size_t point = 0;   ///< all that was issued on it up to this number of the log, from 1
  double* when = nullptr;  ///< outlives the log
};

/// What one rank was asked for, in order. One thread writes it.
struct IssueLog {
  /// At the end.
  void add(const Issued& one) {
    products += one.cost.products + one.cost.attention;
    if (keeps) issued.push_back(one);
  }
  std::deque<Issued> issued{};  ///< number 1 first
  double products = 0;          ///< floating-point operations of its products of matrices
  bool keeps = true;            ///< all of it, or only adds up products
};

/// A rank of a run, on a simulated device; and its log, which its streams need before there is a
/// rank.
struct SimulatedRank : IssueLog, Context {
  /// @param threads of its compute stream
  /// @param device simulated_cpu or simulated_cuda
  SimulatedRank(int rank, int ranks, int threads, Device device);
};

/// What a backend keeps for sums: bytes, for a group of so many ranks, the first and the last of
/// them in the run, and a chunk of so many bytes. Empty: nothing.
using Scratch = std::function<std::uint64_t(int ranks, int first, int last, std::int64_t chunk)>;

/// The place in the grid of a rank on a simulated device.
/// @param context outlives the mesh
/// @param shard_size, post_forward_size as of comm::Mesh
/// @param scratch what its collectives take beside
/// @throws UsageError as comm::Mesh
comm::Mesh make_simulated_mesh(Context& context, int shard_size = 0, int post_forward_size = 0,
                               const Scratch& scratch = {});

}  // namespace nanofsdp::plan
