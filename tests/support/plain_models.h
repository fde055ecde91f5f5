#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "support/tensors.h"

namespace nanofsdp::testing {

/// @file
/// @brief Models that are not GPTs, and the values of a sharded model.

/// A module whose only child is a linear layer.
template <std::int64_t kWidth>
struct LinearLayer final : nn::Module {
  LinearLayer() { add("linear", linear); }
  nn::Linear linear{{.in = kWidth, .out = kWidth}};

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return linear.forward(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return linear.backward(tape, dy); }
};

/// Two layers of one type, one after the other.
template <class Layer>
struct InTurn final : nn::Module {
  InTurn() { add("first", first), add("second", second); }
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return second.forward(tape, first.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return first.backward(tape, second.backward(tape, dy));
  }
  Layer first, second;
};

/// Stores random values, which are the same at every number of ranks.
inline void store_random(fsdp::ShardedModel& sharded, std::uint32_t seed, float scale = 1) {
  for (fsdp::ShardedParameters* row : sharded.rows()) {
    for (std::size_t i = 0; i < row->parameters().size(); ++i) {
      row->store(i, random_tensor(row->parameters()[i]->shape, ++seed, scale).values);
    }
  }
}

/// Every weight, in the order of the units. Collective.
inline std::vector<float> whole_weights(fsdp::ShardedModel& sharded) {
  std::vector<float> all;
  sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
    const std::span<float> values = parameter.data.span<float>();
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

}  // namespace nanofsdp::testing
