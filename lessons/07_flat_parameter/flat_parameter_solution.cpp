#include "flat_parameter_exercise.h"

using nanofsdp::fsdp::ParameterSpec;

std::vector<std::span<float>> views(std::span<float> row, std::span<const ParameterSpec> parameters,
                                    std::int64_t alignment) {
  std::vector<std::span<float>> found;
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters) {
    const std::int64_t begin = (end + alignment - 1) / alignment * alignment;
    end = begin + parameter.numel();
    found.push_back(
        row.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(parameter.numel())));
  }
  return found;
}
