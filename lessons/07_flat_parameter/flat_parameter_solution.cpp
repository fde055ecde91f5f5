#include "flat_parameter_exercise.h"

using nanofsdp::fsdp::ParameterSpec;

// The smallest multiple of `alignment` that is not less than n.
static std::int64_t rounded_up(std::int64_t n, std::int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

std::vector<std::span<float>> views(std::span<float> row, std::span<const ParameterSpec> parameters,
                                    std::int64_t alignment) {
  std::vector<std::span<float>> found;
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters) {
    const std::int64_t begin = rounded_up(end, alignment);
    end = begin + parameter.numel();
    found.push_back(
        row.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(parameter.numel())));
  }
  return found;
}

Place place_of(std::int64_t element, std::span<const ParameterSpec> parameters,
               std::int64_t alignment) {
  std::int64_t end = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::int64_t inside = element - rounded_up(end, alignment);
    if (inside < 0) return {};  // the element lies in the gap before this parameter
    if (inside < parameters[p].numel()) {
      const std::int64_t columns = parameters[p].shape[1];
      return {static_cast<int>(p), inside / columns, inside % columns};
    }
    end = rounded_up(end, alignment) + parameters[p].numel();
  }
  return {};
}
