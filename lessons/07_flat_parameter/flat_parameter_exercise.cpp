#include "flat_parameter_exercise.h"

using nanofsdp::fsdp::ParameterSpec;

std::vector<std::span<float>> views(std::span<float> row, std::span<const ParameterSpec> parameters,
                                    std::int64_t /*alignment*/) {
  // TODO(lesson 07): roughly 8 lines.
  return std::vector<std::span<float>>(parameters.size(), row);
}

Place place_of(std::int64_t /*element*/, std::span<const ParameterSpec> /*parameters*/,
               std::int64_t /*alignment*/) {
  // Roughly 10 lines.
  return {};
}
