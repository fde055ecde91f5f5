#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fsdp/options.h"
#include "models/model.h"
#include "support/tensors.h"

namespace models {

/// @file
/// @brief The parts of a program that the reference and FSDP share: options, first values, rows,
/// passes, the numbers of the optimizer.

inline constexpr double kLearningRate = 1e-2;
inline constexpr double kClip = 0.5;
inline constexpr double kWeightDecay = 0.1;

namespace fsdp = nanofsdp::fsdp;
using fsdp::ShardingStrategy;
using nanofsdp::DType;
using nanofsdp::testing::Owned;

/// All options except the policy. On one rank nothing is sharded or reduced.
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

/// The number of ranks in a shard group.
inline int group_of(const World& world) {
  const bool groups = options_of(world).sharding().replicates && world.shard_size > 0;
  return groups ? world.shard_size : world.ranks;
}

/// How the ranks of a tensor group divide a larger parameter, if `parameter` is taken for a part of
/// one. Half of the parameters are not.
inline nn::Part part_of(const nn::Parameter& parameter, int rank, int ranks) {
  const std::string& name = parameter.name;
  const int sum = std::accumulate(name.begin(), name.end(), 0), dims = parameter.shape.rank();
  if (dims == 0 || sum % 2 == 0) return {};
  return {.dim = sum / 2 % dims, .rank = rank, .ranks = ranks};
}

/// The place of a pass in its part, which is the same on all ranks.
struct Turn {
  int number = 0;  ///< no two passes of a program have the same number
  bool together = false;

  /// Whether backward and the end of the pass are two calls. Between them the input has a gradient.
  bool is_by_hand() const { return number % 3 != 0; }
};

/// Counts passes, and knows in which of them ranks may use different modules. If parameters are
/// stored whole, and only the optimizer's state is sharded, ranks gather in the first pass after an
/// update. If a pass fails, all ranks must fail at the same point.
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

/// @param rank the rank that runs it
inline Pass pass_of(const Action& action, const Turn& turn, int rank) {
  return {.rank = rank,
          .number = turn.number,
          .together = turn.together,
          .calls_to_fault = action.what == Do::fail ? action.which : -1};
}

/// The key of a pass's dropout masks.
inline nanofsdp::DropoutKey key_of(const Program& program, const Turn& turn, int rank) {
  return {.seed = program.seed, .iteration = turn.number, .micro_step = rank};
}

/// "4 pass: 2 evaluate: "
inline std::string place_of(const std::string& outer, std::size_t i, const Action& action) {
  return fmt::format("{}{} {}: ", outer, i, name_of(action.what));
}

/// The numbers that go into a pass: rows, or the gradient of the output. No two are equal.
enum class Input { rows, gradient };

inline Owned<float> input_of(const Program& program, int rank, const Turn& turn, Input input) {
  const int place = (turn.number * 16 + rank) * 2 + (input == Input::rows ? 0 : 1);
  return nanofsdp::testing::random_tensor(
      {program.rows, program.width}, program.seed + 7919 * static_cast<std::uint32_t>(place + 1));
}

}  // namespace models
