#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"
#include "fsdp/wrap.h"
#include "models/training.h"
#include "nn/init.h"

namespace models {

/// @file
/// @brief The values with which a program begins: given, or drawn as FSDP draws them.

using Values = std::map<const nn::Parameter*, std::vector<float>>;

/// The value that a rank gives to parameter `i` of `n`, in the model's order; empty: none.
inline std::vector<float> first_values(const Program& program, int rank, std::size_t i,
                                       std::size_t n, const nn::Parameter& parameter) {
  const bool differs = program.first == First::broadcast || program.first == First::mixed;
  const bool lacks = program.first == First::drawn ||
                     (program.first == First::shapes && rank > 0) ||
                     (program.first == First::partial && i + 1 == n);
  if (lacks) return {};
  const auto seed = static_cast<std::uint32_t>(i) + (differs ? 100U : 0U) * rank;
  return nanofsdp::testing::random_tensor(parameter.shape, program.seed + 1000 * seed).values;
}

/// Draws unit by unit, and inside a unit breadth-first. If a weight has several owners, the last
/// draw stays.
inline Values drawn_values(const Program& program, const std::vector<fsdp::WrappedModule>& units) {
  nanofsdp::Generator generator(program.seed);
  Values values;
  std::set<const nn::Module*> seen;
  for (const auto& unit : units) seen.insert(unit.modules.begin(), unit.modules.end());
  for (const auto& unit : units) {
    std::deque<const nn::Module*> next(unit.modules.begin(), unit.modules.end());
    for (; !next.empty(); next.pop_front()) {
      for (const auto& [name, parameter] : next.front()->own_parameters()) {
        std::vector<float>& drawn = values[parameter.get()];
        drawn.resize(static_cast<std::size_t>(parameter->shape.numel()));
        nn::draw(generator, parameter->init, drawn);
      }
      for (const auto& [name, child] : next.front()->children()) {
        if (seen.insert(child).second) next.push_back(child);
      }
    }
  }
  return values;
}

/// The first values of the reference's model, which are those of rank 0.
inline Values first_values(const Program& program, nn::Module& model,
                           const std::vector<fsdp::WrappedModule>& units) {
  if (program.first == First::drawn) return drawn_values(program, units);
  Values values;
  const auto parameters = model.named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    values[parameters[i]] = first_values(program, /*rank=*/0, i, parameters.size(), *parameters[i]);
  }
  return values;
}

}  // namespace models
