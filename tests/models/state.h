#pragma once

#include <deque>
#include <numeric>
#include <optional>
#include <vector>

#include "fsdp/layout.h"
#include "fsdp/wrap.h"
#include "models/gradients.h"
#include "ops/adamw.h"
#include "ops/norm.h"
#include "support/messages.h"

namespace models {

/// @file
/// @brief A step of the reference's optimizer, and the norm of all gradients.

/// A checkpoint's values for a parameter.
struct Kept {
  std::vector<float> values, m, v;
  std::int64_t steps = 0;
};

/// One parameter of the reference.
struct State {
  explicit State(nn::Parameter& parameter) : parameter(&parameter) {}

  nn::Parameter* parameter;
  bool trains = parameter->requires_grad;           ///< whether it trains when it is sharded
  std::optional<fsdp::MixedPrecision> precision{};  ///< its unit has it; if not set, the world
  Kept now, saved;
  Owned<float> shown{parameter->shape};  ///< the values with which the model computes
};

/// Rounds the parameters of a unit with which the model computes, as float8_e4m3 does. The
/// parameters that train are one row, and the frozen ones in float32 are another.
inline void round_in_messages(const World& world, const fsdp::WrappedModule& unit,
                              std::deque<State>& states) {
  const fsdp::Options options = options_of(world);
  const int parts = options.sharding().splits_update ? world.ranks / group_of(world) : 1;
  const int shards = group_of(world) * parts;
  for (const bool trains : {true, false}) {
    std::vector<fsdp::ParameterSpec> specs;
    std::vector<std::span<float>> values;
    for (const nn::Parameter* parameter : unit.parameters) {
      State& state = *std::ranges::find(states, parameter, &State::parameter);
      if (state.trains != trains || parameter->dtype != DType::float32) continue;
      specs.push_back({parameter->name, parameter->shape});
      values.push_back(state.shown.values);
    }
    const fsdp::Layout layout(specs, shards, options.alignment_on(world.ranks / shards),
                              world.layout);
    nanofsdp::testing::round_in_messages(layout, options.sharding().optimizer, values);
  }
}

/// The numbers of the states of each unit's parameters that train.
using Members = std::vector<std::vector<std::size_t>>;

/// Squares are added up shard by shard, and in each shard unit by unit.
/// Each rank of a tensor group counts its parts, and the first one counts the other parameters.
inline float norm_of(nanofsdp::Context& context, const World& world, int tensor,
                     const std::deque<State>& states, const Members& units,
                     const std::vector<Gradient>& gradients, double max_norm,
                     Owned<float>& coefficient) {
  const int shards = group_of(world);
  Owned<double> squares({shards * tensor});
  for (int row = 0; row < shards * tensor; ++row) {
    const int shard = row % shards;
    for (const auto& unit : units) {
      std::vector<fsdp::ParameterSpec> specs;
      for (const std::size_t i : unit) {
        specs.push_back({states[i].parameter->name, states[i].parameter->shape});
      }
      const fsdp::Layout layout(std::move(specs), shards,
                                std::lcm(world.alignment, world.ranks / shards), world.layout);
      for (std::size_t p = 0; p < unit.size(); ++p) {
        const auto piece = layout.piece(p, shard).in_parameter;
        Gradient gradient = gradients[unit[p]];
        if (piece.empty() || !gradient) continue;
        if (row >= shards && part_of(*states[unit[p]].parameter, 0, tensor).ranks == 1) continue;
        const Tensor x(gradient->data(), {layout.in_whole(p).size()});
        ops::squared_norm(*context.compute, {.x = x.slice(piece.begin, piece.size()),
                                             .out = squares.view().slice(row, 1)});
      }
    }
  }
  Owned<float> norm({1});
  ops::clip_coefficient(
      *context.compute,
      {.squares = squares, .max_norm = max_norm, .norm = norm, .coefficient = coefficient});
  return norm.values[0];
}

inline void update(nanofsdp::Context& context, State& state, std::vector<float> gradient,
                   Owned<float>& coefficient) {
  const nanofsdp::Shape& shape = state.parameter->shape;
  Kept& now = state.now;
  ops::adamw(*context.compute, {.param = Tensor(now.values.data(), shape),
                                .grad = Tensor(gradient.data(), shape),
                                .m = Tensor(now.m.data(), shape),
                                .v = Tensor(now.v.data(), shape),
                                .lr = kLearningRate,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .weight_decay = shape.rank() >= 2 ? kWeightDecay : 0,
                                .step = ++now.steps,
                                .grad_scale = coefficient});
}

}  // namespace models
