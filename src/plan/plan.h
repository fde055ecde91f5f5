#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "base/ledger.h"
#include "comm/communicator.h"
#include "plan/clock.h"
#include "plan/rehearsal.h"

namespace nanofsdp::plan {

/// @file
/// @brief The room `plan`: predicts the memory, traffic and time of a run before it runs, and
/// compares a run with the prediction.
///
/// Comes in: a model without values, the way it is sharded, the work of a rank in a step, and a
/// machine (machine.h). Goes out: memory by class, activations included, traffic and time. No
/// formula computes them. The engine itself takes two steps on a simulated device (rehearsal.h),
/// and a clock plays the work that it issued (clock.h). One rank stands for all, so thousands of
/// ranks cost as much as one.
///
/// The room also has outlines of other people's models (transformer.h, outline.h). Lessons 21 and
/// 24 teach it.

/// A run, and the rank for which it is planned.
struct Run {
  int ranks = 1;              ///< ranks that have the same part of the model
  int tensor_size = 1;        ///< T: ranks of a tensor group; the run has T times as many ranks
  int shard_size = 0;         ///< ranks of a shard group; 0: all
  int post_forward_size = 0;  ///< ranks of a post-forward group; 0: the whole shard group
  int rank = 0;               ///< the planned rank
  int threads = 1;            ///< threads of its compute stream
  Device device = Device::simulated_cpu;  ///< a simulated device
  double across = 0;                      ///< see Setup: how sums across groups are sent
  fsdp::Options options{};                ///< the options of fully_shard
  Work work{};                            ///< the rank's work in a step
  Scratch scratch{};                      ///< memory that the backend keeps for sums
  /// Load the state before the first step, and save it after the last one. A simulated device has
  /// no files, and the functions of the room `store` do all the rest there. Null: nothing happens.
  std::function<void(Rehearsal&)> load{}, save{};
};

/// The largest memory of a rank, and its work in every step except the first.
struct Plan {
  std::vector<std::int64_t> units{};  ///< elements of each unit; the root is the last
  std::int64_t shard = 0;             ///< elements of the shards of all units
  std::array<MemoryCount, kMemoryClasses.size()> memory{};  ///< counts of each class
  std::int64_t reserved = 0;      ///< bytes reserved for all classes, in every step
  std::int64_t total_peak = 0;    ///< most bytes reserved at any moment of the whole run
  comm::Traffic step{};           ///< traffic of a step
  std::int64_t bytes_across = 0;  ///< bytes of them that are sent to other shard groups
  double products = 0;  ///< floating-point operations of matrix products, for a token of a step
  std::optional<Played> time{};  ///< times of a step on a machine
  std::deque<Span> spans{};      ///< the spans of that step, for a trace

  /// The number of the model's parameters.
  std::int64_t numel() const { return std::reduce(units.begin(), units.end()); }

  /// The most bytes that are reserved for a class at any moment of the run. Most classes reach this
  /// in every step; some reach it only while the model is initialised, or while all weights are
  /// gathered.
  std::int64_t of(MemoryClass c) const { return memory[static_cast<std::size_t>(c)].reserved_peak; }
};

/// Runs two steps of the model on the simulated device, after it has loaded and before it saves,
/// and plays the second step.
/// @param machine null: the plan has no time
Plan plan(nn::Module& model, const Run& run, const Machine* machine = nullptr);

}  // namespace nanofsdp::plan
