#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/training.h"

namespace models {

/// @file
/// @brief The gradients of the reference: each rank adds up its own whole gradients, and a
/// reduction adds their sum over ranks to the reduced gradients.

/// FSDP must refuse the program at this point. The text is a part of its error.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The elements of one parameter's gradient, or none.
using Gradient = std::optional<std::vector<float>>;

inline void round(std::vector<float>& x, DType dtype) {
  if (dtype != DType::bfloat16) return;
  for (float& value : x) value = nanofsdp::to_float32(nanofsdp::to_bfloat16(value));
}

/// The gradients of all parameters that train, on all ranks.
class Gradients {
 public:
  /// @param units the numbers of each unit's parameters that train  @param sizes of all parameters
  /// @param precisions of those units that have their own
  Gradients(const World& world, std::vector<std::vector<std::size_t>> units,
            const std::vector<std::size_t>& sizes,
            std::vector<std::optional<fsdp::MixedPrecision>> precisions)
      : world_(world),
        members_(std::move(units)),
        units_(members_.size()),
        sizes_(sizes),
        precisions_(std::move(precisions)) {
    zero([](std::size_t) { return false; });
  }

  /// The sum of a rank's gradients of a parameter since the last reduction.
  struct Own {
    std::vector<float> values;
    bool given = false;
  };
  Own& own(int rank, std::size_t parameter) {
    return own_[static_cast<std::size_t>(rank)][parameter];
  }

  /// Forgets all gradients. Parameters for which `has_zeros` is true get zeros.
  void zero(const std::function<bool(std::size_t parameter)>& has_zeros) {
    std::vector<Own> none;
    for (const std::size_t size : sizes_) none.push_back({std::vector<float>(size), false});
    own_.assign(static_cast<std::size_t>(world_.ranks), none);
    reduced_.assign(static_cast<std::size_t>(world_.ranks / group_of(world_)),
                    std::vector<Gradient>(sizes_.size()));
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      units_[unit] = {.sync = units_[unit].sync, .across = units_[unit].across};
      for (const std::size_t p : members_[unit]) {
        if (!has_zeros(p)) continue;
        for (auto& group : reduced_) group[p].emplace(sizes_[p]);
      }
    }
  }

  /// Switches synchronisation on or off for one unit, or for all (-1): in groups, or across them.
  void sync(int unit, bool on, bool across = false) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const bool named = unit < 0 || u == static_cast<std::size_t>(unit) % units_.size();
      if (named) (across ? units_[u].across : units_[u].sync) = on;
    }
  }
  bool all_sync() const { return std::ranges::all_of(units_, &Unit::sync); }

  /// Begins a backward. @throws Refusal if gradients are sums over ranks already, unless all
  /// parameters of the unit are frozen by now: then these gradients stay
  void begin(const std::function<bool(std::size_t parameter)>& trains) const {
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (units_[u].complete && std::ranges::any_of(members_[u], trains))
        throw Refusal("zero_grad after the last micro-step");
  }
  /// Backward reaches a unit.
  void take(std::size_t unit) {
    if (units_[unit].complete) return;
    units_[unit].taken = !members_[unit].empty();
    if (are_stored_whole()) units_[unit].shown = false;
  }

  /// Backward is over on all ranks.
  void reduce(bool last) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      Unit& unit = units_[u];
      if (members_[u].empty() || unit.complete) continue;
      const bool now = unit.sync && (last || !options().accumulates());
      const bool may = last && unit.across;
      const bool across = sharding().replicates && may;
      const bool in_group = now && (unit.taken || !sharding().parameters);
      if (in_group) reduce_in_groups(u);
      if (across && unit.landed) sum_across(u);
      const bool reduces = in_group || (across && unit.landed);
      // On all ranks, also on those that have not used the unit.
      if (!reduces && are_stored_whole()) unit.shown = false;
      if (!reduces) continue;
      unit.shown = may || !sharding().replicates;
      unit.complete =
          world_.ranks > 1 && (sharding().replicates ? may : last && are_stored_whole());
    }
  }

  /// The gradients that the optimizer sees: sums over all ranks.
  std::vector<Gradient> reduced() const {
    std::vector<Gradient> seen(sizes_.size());
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const std::size_t p : members_[u]) {
        if (units_[u].shown) seen[p] = reduced_[0][p];
      }
    }
    return seen;
  }

 private:
  struct Unit {
    bool sync = true, across = true;
    bool taken = false;     // ranks may have added to its gradients since the last reduction
    bool landed = false;    // a reduction has added to the reduced gradients
    bool shown = true;      // the reduced gradients are the same on all ranks
    bool complete = false;  // the reduced gradients must not be reduced again
  };

  fsdp::Options options() const { return options_of(world_); }
  const fsdp::Sharding& sharding() const { return options().sharding(); }
  // Whether the rank's own sum lies in the memory of the reduced sum.
  bool are_stored_whole() const {
    const bool copied = world_.layout == fsdp::LayoutKind::per_parameter && sharding().optimizer;
    return !sharding().gradients && !copied;
  }

  static void add(const Gradient& from, Gradient& to) {
    if (!from) return;
    if (!to) {
      to = from;
      return;
    }
    for (std::size_t e = 0; e < to->size(); ++e) (*to)[e] += (*from)[e];
  }

  // Averages a sum over `ranks`, if gradients are averaged.
  void finish(Gradient& sum, int ranks) const {
    if (!world_.average || !sum) return;
    for (float& x : *sum) x *= 1.0F / static_cast<float>(ranks);
  }

  // Each group sums the gradients of its ranks, in order.
  void reduce_in_groups(std::size_t u) {
    const int group = group_of(world_);
    const DType dtype = precisions_[u] ? precisions_[u]->reduce_dtype : world_.reduce_dtype;
    for (const std::size_t p : members_[u]) {
      for (int first = 0; first < world_.ranks; first += group) {
        Gradient sum, &reduced = reduced_[static_cast<std::size_t>(first / group)][p];
        for (int rank = first; rank < first + group; ++rank) add(take_own(rank, p, dtype), sum);
        // Its own gradients are all, and go on adding up.
        if (world_.ranks == 1 && sum) reduced.reset();
        if (world_.ranks > 1) finish(sum, group);
        add(sum, reduced);
      }
    }
    units_[u].taken = false;
    units_[u].landed = true;
  }

  // After that, the groups are summed.
  void sum_across(std::size_t u) {
    for (const std::size_t p : members_[u]) {
      Gradient total;
      for (const auto& of_group : reduced_) add(of_group[p], total);
      finish(total, static_cast<int>(reduced_.size()));
      for (auto& of_group : reduced_) of_group[p] = total;
    }
  }

  Gradient take_own(int rank, std::size_t p, DType dtype) {
    Own& mine = own(rank, p);
    if (!mine.given) return {};
    if (world_.ranks == 1) return mine.values;
    Gradient gradient = std::exchange(mine, {std::vector<float>(sizes_[p]), false}).values;
    round(*gradient, dtype);
    return gradient;
  }

  World world_;
  std::vector<std::vector<std::size_t>> members_;  // the members of each unit
  std::vector<Unit> units_;
  std::vector<std::size_t> sizes_;
  std::vector<std::optional<fsdp::MixedPrecision>> precisions_;
  std::vector<std::vector<Own>> own_;           // for each rank and each parameter
  std::vector<std::vector<Gradient>> reduced_;  // for each group and each parameter
};

}  // namespace models
