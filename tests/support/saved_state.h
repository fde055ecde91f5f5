#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "store/slices.h"
#include "support/tiny_training.h"

namespace nanofsdp::testing {

/// @file
/// @brief Parameters and moments of a whole model, to compare world sizes and strategies.

/// The elements that this rank saves, at their places in the whole: parameter by parameter in the
/// model's order, with values, m and v. It has zeros if a parameter has no moments, and NaN for
/// elements that this rank does not save.
inline std::vector<float> saved_state(TinyTraining& t) {
  std::map<std::string, std::size_t> starts;
  std::size_t total = 0;
  for (const fsdp::ShardedParameters* row : t.sharded.rows()) {
    for (const nn::Parameter* parameter : row->parameters()) {
      starts[parameter->name] = total;
      total += 3 * static_cast<std::size_t>(parameter->shape.numel());
    }
  }
  std::vector<float> all(total, std::numeric_limits<float>::quiet_NaN());
  const int owners = t.sharded.rows()[0]->layout().world_size();
  if (t.mesh.rank() >= owners) return all;  // a replica saves nothing
  for (const store::StateSlice& slice :
       store::slices_of(t.sharded.units(), t.optimizer, store::Slices::to_save)) {
    auto to = all.begin() + static_cast<std::ptrdiff_t>(starts.at(slice.parameter.name)) +
              slice.range.begin;
    auto tensors = slice.tensors;
    tensors.resize(3);
    for (const auto& [name, tensor] : tensors) {
      // A frozen parameter has no moments.
      const bool none = slice.steps == nullptr && tensor.empty();
      EXPECT_EQ(none ? slice.range.size() : tensor.numel(), slice.range.size());
      if (none) std::fill_n(to, slice.range.size(), 0.0F);
      if (!none) std::ranges::copy(tensor.span<float>(), to);
      to += slice.parameter.numel();
    }
  }
  return all;
}

/// The whole. Every element must come from exactly one rank.
inline std::vector<float> whole_state(const std::vector<std::vector<float>>& of_ranks) {
  std::vector<float> whole = of_ranks[0];
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (std::isnan(of_ranks[rank][i])) continue;
      if (!std::isnan(whole[i])) throw std::runtime_error("saved twice");
      whole[i] = of_ranks[rank][i];
    }
  }
  for (const float x : whole) {
    if (std::isnan(x)) throw std::runtime_error("not saved");
  }
  return whole;
}

}  // namespace nanofsdp::testing
