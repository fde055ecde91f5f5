#pragma once

#include "fsdp/fully_shard.h"
#include "models/pass.h"
#include "models/program.h"

namespace models {

namespace fsdp = nanofsdp::fsdp;

/// @file
/// @brief Actions of a user on a sharded model that change no number.

/// Unit `i`. If there are fewer units, the count begins again at the first.
inline fsdp::Unit& unit_of(fsdp::ShardedModel& sharded, int i) {
  return sharded.units()[static_cast<std::size_t>(i) % sharded.units().size()];
}

/// Reads everything that a user can read.
/// @param clipped whether there is a norm
inline void look(fsdp::ShardedModel& sharded, nn::Module& module, bool clipped) {
  for (const nn::Parameter* parameter : module.named_parameters()) {
    (void)parameter->grad().numel();
    (void)parameter->data.numel();
  }
  for (const fsdp::Unit& unit : sharded.units()) (void)unit.numel();
  if (clipped) (void)sharded.grad_norm().span<float>()[0];
}

/// Visits all parameters with a visitor that throws at parameter `which`.
inline void fail_to_summon(fsdp::ShardedModel& sharded, int which) {
  try {
    sharded.summon_full_parameters([&](const nn::Parameter&) {
      if (which-- == 0) throw Fault();
    });
  } catch (const Fault&) {
  }
}

/// Sets the units that are gathered ahead.
inline void order(fsdp::ShardedModel& sharded, const Action& action) {
  const nn::Module& module = unit_of(sharded, action.which).module();
  const fsdp::Modules next{&unit_of(sharded, action.which + 2).module(),
                           &unit_of(sharded, action.which + 1).module()};
  action.on ? sharded.set_modules_to_forward_prefetch(module, next)
            : sharded.set_modules_to_backward_prefetch(module, next);
}

}  // namespace models
