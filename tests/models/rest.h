#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "models/traffic.h"
#include "models/training.h"
#include "support/closed_formula.h"

namespace models {

using nanofsdp::Context;
using nanofsdp::MemoryClass;

/// @file
/// @brief The memory and traffic of a rank beside its computation. They must equal the closed
/// formulas, and memory must be freed when it is not needed.
class Rest {
 public:
  /// @pre a model has just been sharded
  Rest(Context& context, fsdp::ShardedModel& sharded, const World& world, int micro_steps)
      : context_(context),
        sharded_(sharded),
        world_(world),
        sync_(sharded.units().size(), true),
        plan_(nanofsdp::formula::plan(nanofsdp::formula::layouts_of(sharded.units()),
                                      options_of(world),
                                      {.shard_size = sharded.mesh().shard_size(),
                                       .replicas = sharded.mesh().replicas(),
                                       .post_forward_size = world.post_forward_size,
                                       .micro_steps = micro_steps})),
        planned_(whole_bytes()),
        first_slots_(slots()),
        slices_(context.ledger.count(MemoryClass::unsharded_parameters).in_use) {
    controlled();
  }

  /// Requires that exactly the expected memory is reserved, for nested, frozen and shared
  /// parameters too.
  void require_memory() const {
    for (const MemoryClass c :
         {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer,
          MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
      const std::int64_t bytes = context_.ledger.count(c).reserved;
      if (bytes == plan_.of(c)) continue;
      throw std::runtime_error(
          fmt::format("{}: planned {} bytes, got {}", nanofsdp::name_of(c), plan_.of(c), bytes));
    }
  }

  /// @throws std::runtime_error unless a step after the first has sent the planned bytes
  void require_traffic(const nanofsdp::comm::Traffic& step) const {
    models::require_traffic(step, plan_.step);
  }

  // These functions are called for the actions of the user.
  void sync(int unit, bool on) {
    if (unit < 0) return sync_.assign(sync_.size(), on);
    sync_[static_cast<std::size_t>(unit) % sync_.size()] = on;
  }
  void begun() { slots_ = slots(); }  ///< a pass begins: now the controls count
  void controlled() {                 ///< units may stay unsharded from now on
    const auto stays = [](const fsdp::Unit& unit) { return unit.stays() && !unit.is_root(); };
    stayed_ = stayed_ || std::ranges::any_of(sharded_.units(), stays);
  }
  void forgotten() { adds_up_ = false; }  ///< gradients have been zeroed
  void reduced(bool last) {               ///< a backward is over
    const bool all_sync = std::ranges::all_of(sync_, [](bool on) { return on; });
    adds_up_ = !all_sync || (options_of(world_).accumulates() && !last);
    const auto stays = [](const fsdp::Unit& unit) { return !unit.reshard_after_backward; };
    keeps_ = std::ranges::any_of(sharded_.units(), stays) ||
             (world_.no_sync && !last && world_.strategy == ShardingStrategy::shard_grad_op);
  }
  void ended() { keeps_ = false; }  ///< a pass without backward is over

  /// Requires that between passes only memory is held that the strategy keeps or that still adds
  /// up, and that the pools have their planned slots.
  void require(const std::string& place) const {
    for (const fsdp::Unit& unit : sharded_.units()) unit.require_at_rest(place.c_str());
    const bool kept = !fsdp::sharding_of(sharded_.strategy()).parameters || keeps_;
    if (!kept) require_unused(MemoryClass::unsharded_parameters, place, slices_);
    if (!adds_up_) require_unused(MemoryClass::unsharded_gradients, place, 0);
  }
  /// Requires the same of the pools at the end of a pass.
  void require_pools(const std::string& place) const {
    const std::int64_t expected = planned_ + plan_.slot_bytes * (slots_ - first_slots_);
    if (adds_up_ || keeps_ || whole_bytes() == expected) return;
    throw std::runtime_error(fmt::format("after {}: expected pools of {} bytes, got {}", place,
                                         expected, whole_bytes()));
  }

  /// A user's hooks of a unit run outside the library's. So there each parameter must show the
  /// piece that the rank keeps.
  void require_piece(const nn::Module& module) const {
    if (!fsdp::sharding_of(sharded_.strategy()).reshards_after_forward) return;
    for (const fsdp::Unit& unit : sharded_.units()) {
      if (&unit.module() != &module || unit.is_root() || stayed_) continue;
      if (unit.modules().size() > 1) continue;  // it stays unsharded between its modules
      for (const fsdp::ShardedParameters& row : unit.rows()) {
        for (std::size_t i = 0; i < row.parameters().size(); ++i) {
          const nn::Parameter& parameter = *row.parameters()[i];
          const std::int64_t piece = row.owned(i).in_shard.size();
          if (parameter.data.numel() == piece) continue;
          throw std::runtime_error(fmt::format("a hook of {} sees {} elements of {}, not {}",
                                               unit.name(), parameter.data.numel(), parameter.name,
                                               piece));
        }
      }
    }
  }

 private:
  // The slots for whole parameters that the pool has in addition to the root's.
  std::int64_t slots() const {
    const std::span<const fsdp::Unit> blocks = sharded_.units().first(sharded_.units().size() - 1);
    int depth = 0;
    for (const fsdp::Unit& unit : sharded_.units()) depth = std::max(depth, unit.depth());
    const auto staying = std::ranges::count_if(blocks, &fsdp::Unit::stays);
    return fsdp::pool_slots(options_of(world_), std::ssize(blocks), depth, staying).parameters;
  }

  // Bytes that are reserved for whole parameters and gradients.
  std::int64_t whole_bytes() const {
    return context_.ledger.count(MemoryClass::unsharded_parameters).reserved +
           context_.ledger.count(MemoryClass::unsharded_gradients).reserved;
  }

  void require_unused(MemoryClass memory_class, const std::string& place,
                      std::int64_t always) const {
    const std::int64_t bytes = context_.ledger.count(memory_class).in_use - always;
    if (bytes == 0) return;
    throw std::runtime_error(fmt::format("after {}: {} bytes of {} in use", place, bytes,
                                         nanofsdp::name_of(memory_class)));
  }

  Context& context_;
  fsdp::ShardedModel& sharded_;
  World world_;
  std::vector<bool> sync_;
  nanofsdp::formula::Plan plan_;
  std::int64_t planned_ = 0, first_slots_ = 0, slots_ = first_slots_;
  std::int64_t slices_ = 0;  // bytes of post-forward groups' slices, which are always in use
  bool adds_up_ = false, keeps_ = false;
  bool stayed_ = false;  // whether a unit but the root has ever stayed unsharded
};

}  // namespace models
