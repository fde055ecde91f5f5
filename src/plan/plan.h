#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/ledger.h"
#include "comm/traffic.h"
#include "fsdp/fully_shard.h"
#include "plan/clock.h"
#include "plan/rehearsal.h"

namespace nanofsdp::plan {

/// @file
/// @brief The room `plan`: what a run will hold, move and take, before it is run; and how a run is
/// held against that.
///
/// Comes in: a model without values, how it is sharded, what a rank does in a step; a machine
/// (machine.h). Goes out: memory by class with activations, traffic, time. No formula says so: the
/// engine itself takes two steps on a simulated device (rehearsal.h), and a clock plays what it
/// issued (clock.h). One rank stands for all, so thousands cost what one does.
///
/// Beside it: models of other people's in outline (transformer.h, outline.h). Taught in lessons 21
/// and 24.

/// A run, and the rank of it that is looked at.
struct Run {
  int ranks = 1;                          ///< of the run
  int shard_size = 0;                     ///< of a shard group; 0: all
  int post_forward_size = 0;              ///< of a post-forward group; 0: all of the shard group
  int rank = 0;                           ///< which
  int threads = 1;                        ///< of its compute stream
  Device device = Device::simulated_cpu;  ///< a simulated one
  fsdp::Options options{};                ///< as of fully_shard
  Work work{};                            ///< of the rank
  Scratch scratch{};                      ///< what the backend keeps for sums
};

/// What a rank holds at most, and does in every step but the first.
struct Plan {
  std::vector<std::int64_t> units{};                        ///< elements of each, the root's last
  std::int64_t shard = 0;                                   ///< elements of the shards of all units
  std::array<MemoryCount, kMemoryClasses.size()> memory{};  ///< by class
  std::int64_t reserved = 0;      ///< bytes reserved for all of them, in every step
  std::int64_t total_peak = 0;    ///< the same, at the worst moment of the whole run
  comm::Traffic step{};           ///< of a step
  std::int64_t bytes_across = 0;  ///< of them, sent to other shard groups
  double products = 0;            ///< floating-point operations of its products of matrices
  std::optional<Played> time{};   ///< of a step, on a machine
  std::deque<Span> spans{};       ///< of that step, for a trace

  /// The most bytes that are reserved for a class at any moment of the run. Most classes reach this
  /// in every step; some reach it only while the first values are made, or while all weights are
  /// looked at.
  std::int64_t of(MemoryClass c) const { return memory[static_cast<std::size_t>(c)].reserved_peak; }
};

/// Runs two steps and a save of the model there, and plays the second step.
/// @param machine null: time does not matter
Plan plan(nn::Module& model, const Run& run, const Machine* machine = nullptr);

}  // namespace nanofsdp::plan
