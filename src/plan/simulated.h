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
/// @brief A device without memory and without arithmetic: what is issued on it is written down.
///
/// Buffers there are entries of the ledger and addresses that cannot be read; tensors have shapes,
/// but no values. Work is not done, its cost is kept. So a program runs unchanged, issues the same
/// work in the same order, and leaves a log that a clock can play at the speed of any machine
/// (plan/clock.h). What the host reads back is 0.
///
/// There are two: the program asks a CPU and a GPU for different things. A rank there has no
/// others: its collectives are counted, cost what they would, and move nothing. Nothing here grows
/// with the number of ranks.

/// Streams of a rank, numbered: 0 computes, 1 gathers, 2 reduces.
inline constexpr int kStreams = 3;

/// One thing that the main thread did.
struct Issued {
  /// What it was.
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
