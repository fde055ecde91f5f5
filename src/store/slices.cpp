#include "store/slices.h"

#include <algorithm>

#include "base/check.h"

namespace nanofsdp::store {

std::vector<StateSlice> slices_of(std::span<fsdp::Unit> units, fsdp::ShardedOptimizer& optimizer,
                                  Slices purpose) {
  const bool shard_alone = purpose == Slices::to_save;
  std::vector<StateSlice> slices;
  for (std::size_t u = 0; u < units.size(); ++u) {
    NANOFSDP_CHECK(optimizer.unit(u) == &units[u], .what = "checkpoint",
                   .expected = "an optimizer of all units of the model", .got = "another");
    if (purpose == Slices::to_load) units[u].require_at_rest("loading of a checkpoint");
    for (const fsdp::ShardedParameters& row : units[u].rows()) {
      for (std::size_t i = 0; i < row.parameters().size(); ++i) {
        fsdp::Piece piece = row.owned(i);
        if (shard_alone && !row.at_rest().optimizer) {
          const std::int64_t begin = piece.in_shard.begin;
          piece.in_parameter = row.layout().piece(i, row.rank()).in_parameter;
          piece.in_shard = {begin + piece.in_parameter.begin, begin + piece.in_parameter.end};
        }
        if (piece.in_shard.empty()) continue;
        const nn::Parameter& parameter = *row.parameters()[i];
        StateSlice& slice = slices.emplace_back(
            StateSlice{{parameter.name, whole_shape(parameter)}, piece.in_parameter});
        slice.blocks = blocks_of(parameter);
        const auto add = [&](const std::string& name, const Tensor& all) {
          slice.tensors.emplace_back(name, all.slice(piece.in_shard.begin, piece.in_shard.size()));
        };
        add(parameter.name, row.parameter_shard());
        if (!row.trains()) continue;
        for (std::size_t s = 0; s < optimizer.state_names().size(); ++s)
          add(parameter.name + "." + optimizer.state_names()[s], optimizer.state(u)[s]);
        slice.steps = &optimizer.parameter_steps(u)[i];
      }
    }
  }
  return slices;
}

void finish_loading(std::span<fsdp::Unit> units, fsdp::ShardedOptimizer& optimizer,
                    std::int64_t steps) {
  for (fsdp::Unit& unit : units)
    for (fsdp::ShardedParameters& row : unit.rows()) row.written();
  optimizer.set_steps(steps);
}

//! [plan_reads]
std::optional<std::vector<ReadItem>> plan_reads(std::span<const fsdp::Range> wanted,
                                                std::span<const fsdp::Range> saved) {
  std::vector<std::size_t> order;  // indices of the saved ranges, by their elements
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (!saved[i].empty()) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) { return saved[i].begin; });
  const auto overlap = [&](std::size_t a, std::size_t b) { return saved[a].end > saved[b].begin; };
  if (std::ranges::adjacent_find(order, overlap) != order.end()) return std::nullopt;
  std::vector<ReadItem> items;
  for (const fsdp::Range& range : wanted) {
    auto next = std::ranges::upper_bound(order, range.begin, {},
                                         [&](std::size_t i) { return saved[i].end; });
    for (std::int64_t begin = range.begin; begin < range.end; ++next) {
      if (next == order.end() || saved[*next].begin > begin) return std::nullopt;
      const std::int64_t end = std::min(range.end, saved[*next].end);
      items.push_back({*next, {begin - saved[*next].begin, end - saved[*next].begin}});
      begin = end;
    }
  }
  return items;
}
//! [plan_reads]

}  // namespace nanofsdp::store
