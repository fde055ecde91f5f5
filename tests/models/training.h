#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "support/tensors.h"

namespace models {

/// @file
/// @brief What a program fixes for the reference and for FSDP alike: first values, rows, passes,
/// the numbers of the optimizer.

inline constexpr double kLearningRate = 1e-2;
inline constexpr double kClip = 0.5;
inline constexpr double kWeightDecay = 0.1;

using nanofsdp::DType;
using nanofsdp::fsdp::ShardingStrategy;
using nanofsdp::testing::Owned;

/// The first values of parameter `i` in the model's order.
inline Owned<float> first_values(const Program& program, const nn::Parameter& parameter,
                                 std::size_t i) {
  return nanofsdp::testing::random_tensor(parameter.shape,
                                          program.seed + 1000 * static_cast<std::uint32_t>(i));
}

/// Where in the program a pass is.
struct Turn {
  int step = 0;
  int micro_step = 0;    ///< -1: a false start
  bool between = false;  ///< before the micro-step, not its own
};

/// Where parameters are stored whole, and only what the optimizer updates is sharded, ranks gather
/// in the first pass of a step, and after a look at parameters other than those to compute with.
inline Pass pass_of(const Program& program, int rank, const Turn& turn) {
  const bool looked = program.between == Between::summon && program.param_dtype != DType::float32;
  const bool gathers = turn.between || turn.micro_step <= 0 || looked ||
                       nanofsdp::fsdp::sharding_of(program.strategy).parameters;
  return {.rank = rank,
          .number = turn.step * program.micro_steps + turn.micro_step + (turn.between ? 2 : 1),
          .together = gathers && program.strategy != ShardingStrategy::no_shard};
}

inline std::string place_of(int step, int micro_step) {
  return fmt::format("step {}, micro-step {}: ", step, micro_step);
}

/// What goes into a pass: rows, or the gradient of what came out. No two are equal.
enum class Input { rows, gradient };

inline Owned<float> input_of(const Program& program, int rank, const Turn& turn, Input input) {
  int place = turn.step * (program.micro_steps + 1) + turn.micro_step + 1;
  place = place * 2 + (turn.between ? 1 : 0);
  place = place * program.ranks + rank;
  place = place * 2 + (input == Input::rows ? 0 : 1);
  return nanofsdp::testing::random_tensor(
      {program.rows, program.width}, program.seed + 7919 * static_cast<std::uint32_t>(place + 1));
}

}  // namespace models
