#pragma once

#include "fsdp/unit.h"
#include "nn/init.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief First values without ever holding the model.
///
/// A model is declared with shapes only. Every rank then runs through the same plan of draws from
/// the same seed: it draws one whole parameter into a scratch, keeps the piece that it owns, and
/// forgets the rest. So no broadcast is needed, every world size starts from the same weights, and
/// the peak is the shards and one parameter.
///
///     Model model;  // shapes only
///     auto sharded = fsdp::fully_shard(context, model, mesh, options);
///     Generator generator(1337);  // the same seed on every rank
///     fsdp::deferred_init(context, sharded.units(), generator);

/// FSDP's order of draws: unit by unit, blocks first and the root last, and inside a unit
/// breadth-first, not entering other units (PyTorch 2's _get_modules_to_materialize). A tied weight
/// is drawn once for each owner; the last draw stays.
nn::DrawPlan breadth_first_draws(std::span<const Unit> units);

/// Carries out a plan. Every parameter in it gets the value of its last draw. The others keep the
/// values that they have, as those of a pretrained model beside a new head.
/// @throws Error if a parameter is not in the plan and has no value, or is in it and in no unit
void deferred_init(Context& context, std::span<Unit> units, const nn::DrawPlan& plan,
                   Generator& generator);

/// The same in FSDP's order, for all parameters, also for those that have values.
inline void deferred_init(Context& context, std::span<Unit> units, Generator& generator) {
  deferred_init(context, units, breadth_first_draws(units), generator);
}

}  // namespace nanofsdp::fsdp
