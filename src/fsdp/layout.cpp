#include "fsdp/layout.h"

#include <utility>

#include "base/check.h"
#include "fsdp/flat_layout.h"
#include "fsdp/per_parameter_layout.h"

namespace nanofsdp::fsdp {

std::int64_t ParameterSpec::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) {
    NANOFSDP_CHECK(dim >= 0, .what = "shape of parameter '" + name + "'",
                   .expected = "dimensions of at least 0", .got = std::to_string(dim));
    n *= dim;
  }
  return n;
}

Layout::Layout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment)
    : parameters_(std::move(parameters)), world_size_(world_size) {
  NANOFSDP_CHECK(world_size >= 1, .what = "world size", .expected = "at least 1",
                 .got = std::to_string(world_size));
  NANOFSDP_CHECK(alignment >= 1, .what = "alignment", .expected = "at least 1 element",
                 .got = std::to_string(alignment));
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters_) {
    const std::int64_t begin = round_up(end, alignment);
    end = begin + parameter.numel();
    in_whole_.push_back({begin, end});
    total_numel_ += parameter.numel();
  }
  shard_numel_ = round_up((end + world_size_ - 1) / world_size_, alignment);
  whole_numel_ = padded_numel();
}

std::unique_ptr<const Layout> make_layout(LayoutKind kind, std::vector<ParameterSpec> parameters,
                                          int world_size, std::int64_t alignment) {
  if (kind == LayoutKind::flat) {
    return std::make_unique<FlatLayout>(std::move(parameters), world_size, alignment);
  }
  return std::make_unique<PerParameterLayout>(std::move(parameters), world_size, alignment);
}

}  // namespace nanofsdp::fsdp
