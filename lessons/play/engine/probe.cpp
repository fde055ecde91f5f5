#include "engine/probe.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"

namespace nanofsdp::play {

Probe::Probe(std::span<fsdp::Unit> units, const fsdp::ShardedOptimizer& optimizer,
             const std::string& parameter, std::int64_t element)
    : optimizer_(&optimizer), element_(static_cast<std::size_t>(element)) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const fsdp::ShardedParameters& row = units[u].rows().front();
    for (std::size_t i = 0; i < row.parameters().size(); ++i) {
      if (row.parameters()[i]->name != parameter) continue;
      unit_of_ = u, unit_ = &units[u], row_ = &row, parameter_ = row.parameters()[i];
      const fsdp::Piece piece = row.owned(i);
      if (element >= piece.in_parameter.begin && element < piece.in_parameter.end) {
        in_shard_ =
            static_cast<std::size_t>(piece.in_shard.begin + element - piece.in_parameter.begin);
      }
    }
  }
  if (parameter_ == nullptr || element < 0 || element >= parameter_->shape.numel()) {
    throw UsageError({.what = fmt::format("element {} of parameter '{}'", element, parameter),
                      .expected = "one that the model has"});
  }
}

Values Probe::look() const {
  const auto numel = static_cast<std::size_t>(parameter_->shape.numel());
  const auto whole = [&](std::span<const float> all) {
    return all.size() == numel ? std::optional(all[element_]) : std::nullopt;
  };
  const auto owned = [&](const Tensor& all) {
    return in_shard_ && !all.empty() ? std::optional(all.span<float>()[*in_shard_]) : std::nullopt;
  };
  Values values;
  values[0] = whole(parameter_->data.span<float>());
  values[1] = owned(row_->parameter_shard());
  if (unit_->state() != fsdp::Unit::State::reducing) {
    values[2] = whole(parameter_->grad().span<float>());
    values[3] = owned(row_->gradient_shard());
  }
  const std::vector<Tensor> moments = optimizer_->state(unit_of_);
  for (std::size_t m = 0; m < moments.size() && m < 2; ++m) values[4 + m] = owned(moments[m]);
  return values;
}

}  // namespace nanofsdp::play
