#include "fsdp/checkpoint.h"

#include <algorithm>

namespace nanofsdp::fsdp {
namespace {

// What `range` of a unit's row holds, parameter by parameter; it lies within what this rank's
// optimizer updates.
void add_slices(const FlatParameter& flat, const ShardedOptimizer::Moments& moments, Range range,
                std::vector<StateSlice>& slices) {
  const std::int64_t start = range.begin - flat.optimizer_range().begin;
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    const Piece piece = flat.layout().piece(i, range);
    if (piece.in_shard.empty()) continue;
    const auto view = [&](const Tensor& owned) {
      return owned.slice(start + piece.in_shard.begin, piece.in_shard.size());
    };
    slices.push_back({.parameter = flat.layout().parameters()[i],
                      .range = piece.in_parameter,
                      .values = view(flat.optimizer_parameters()),
                      .m = view(moments.m),
                      .v = view(moments.v)});
  }
}

}  // namespace

std::vector<StateSlice> slices_to_save(std::span<Unit> units, const ShardedOptimizer& optimizer) {
  std::vector<StateSlice> slices;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const FlatParameter& flat = units[u].flat();
    add_slices(flat, optimizer.moments(u), flat.shard_range(), slices);
  }
  return slices;
}

std::vector<StateSlice> slices_to_load(std::span<Unit> units, const ShardedOptimizer& optimizer) {
  std::vector<StateSlice> slices;
  for (std::size_t u = 0; u < units.size(); ++u) {
    units[u].require_at_rest("loading of a checkpoint");
    const FlatParameter& flat = units[u].flat();
    add_slices(flat, optimizer.moments(u), flat.optimizer_range(), slices);
  }
  return slices;
}

void finish_loading(std::span<Unit> units, ShardedOptimizer& optimizer, std::int64_t steps) {
  for (Unit& unit : units) unit.flat().written();
  optimizer.set_steps(steps);
}

//! [plan_reads]
std::optional<std::vector<ReadItem>> plan_reads(Range wanted, std::span<const Range> saved) {
  std::vector<ReadItem> items;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const std::int64_t begin = std::max(wanted.begin, saved[i].begin);
    const std::int64_t end = std::min(wanted.end, saved[i].end);
    if (begin >= end) continue;
    items.push_back({.saved = i,
                     .in_saved = {begin - saved[i].begin, end - saved[i].begin},
                     .in_wanted = {begin - wanted.begin, end - wanted.begin}});
  }
  std::ranges::sort(items, {}, [](const ReadItem& item) { return item.in_wanted.begin; });
  std::int64_t next = 0;
  for (const ReadItem& item : items) {
    if (item.in_wanted.begin != next) return std::nullopt;
    next = item.in_wanted.end;
  }
  if (next != wanted.size()) return std::nullopt;
  return items;
}
//! [plan_reads]

}  // namespace nanofsdp::fsdp
