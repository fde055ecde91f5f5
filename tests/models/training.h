#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/options.h"
#include "models/model.h"
#include "support/tensors.h"

namespace models {

/// @file
/// @brief What a program fixes for the reference and for FSDP alike: options, first values, rows,
/// passes, the numbers of the optimizer.

inline constexpr double kLearningRate = 1e-2;
inline constexpr double kClip = 0.5;
inline constexpr double kWeightDecay = 0.1;

namespace fsdp = nanofsdp::fsdp;
using fsdp::ShardingStrategy;
using nanofsdp::DType;
using nanofsdp::testing::Owned;

/// All but the policy. On one rank nothing is sharded, and nothing is reduced.
inline fsdp::Options options_of(const World& world) {
  return {.strategy = world.ranks == 1 ? ShardingStrategy::no_shard : world.strategy,
          .layout = world.layout,
          .precision = {world.param_dtype, world.reduce_dtype},
          .forward_prefetch = world.forward_prefetch,
          .backward_prefetch = world.backward_prefetch,
          .no_sync = world.no_sync,
          .reduction =
              world.average ? nanofsdp::comm::ReduceOp::average : nanofsdp::comm::ReduceOp::sum,
          .alignment = world.alignment,
          .poison = world.poison,
          .pool = world.pool};
}

/// Ranks of a shard group.
inline int group_of(const World& world) {
  const bool groups = options_of(world).sharding().replicates && world.shard_size > 0;
  return groups ? world.shard_size : world.ranks;
}

/// A pass in its part, the same on all ranks.
struct Turn {
  int number = 0;  ///< no two passes of a program have the same
  bool together = false;

  /// Backward and the end of the pass are two calls, between which there is a gradient of the
  /// input.
  bool is_by_hand() const { return number % 3 != 0; }
};

/// Counts passes, and knows in which of them ranks may differ in the modules that they use. Where
/// parameters are stored whole, and only what the optimizer updates is sharded, ranks gather in the
/// first pass after an update. Where a pass fails, all ranks are to fail at the same point.
class Course {
 public:
  Course(const World& world, std::size_t part)
      : sharding_(options_of(world).sharding()),
        part_(part),
        passes_(1000 * static_cast<int>(part)) {}

  std::size_t part() const { return part_; }

  Turn turn(const Action& action) {
    const bool fails = action.what == Do::fail;
    const bool gathers = stale_ || sharding_.parameters;
    if (!fails) stale_ = false;
    return {passes_++, fails || (gathers && sharding_.optimizer)};
  }
  void updated() { stale_ = true; }

 private:
  fsdp::Sharding sharding_;
  std::size_t part_;
  int passes_;
  bool stale_ = true;
};

/// @param rank that runs it
inline Pass pass_of(const Action& action, const Turn& turn, int rank) {
  return {.rank = rank,
          .number = turn.number,
          .together = turn.together,
          .calls_to_fault = action.what == Do::fail ? action.which : -1};
}

/// What decides which elements dropout drops.
inline nanofsdp::DropoutKey key_of(const Program& program, const Turn& turn, int rank) {
  return {.seed = program.seed, .iteration = turn.number, .micro_step = rank};
}

/// "4 pass: 2 evaluate: "
inline std::string place_of(const std::string& outer, std::size_t i, const Action& action) {
  return fmt::format("{}{} {}: ", outer, i, name_of(action.what));
}

/// What goes into a pass: rows, or the gradient of what came out. No two are equal.
enum class Input { rows, gradient };

inline Owned<float> input_of(const Program& program, int rank, const Turn& turn, Input input) {
  const int place = (turn.number * 16 + rank) * 2 + (input == Input::rows ? 0 : 1);
  return nanofsdp::testing::random_tensor(
      {program.rows, program.width}, program.seed + 7919 * static_cast<std::uint32_t>(place + 1));
}

}  // namespace models
