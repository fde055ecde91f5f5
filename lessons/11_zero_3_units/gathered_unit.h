#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "10_zero_2_gradients/gradient_shard.h"

/// @file
/// @brief A unit whose parameters are gathered before it computes and discarded after it. This is
/// lesson 11's idea.

namespace lesson {

/// The records of a run, beside its losses and bytes.
struct Run : Trained {
  using Trained::Trained;
  std::vector<std::string> events;  // on rank 0 in the last step
  std::int64_t borrowed = 0;        // the most bytes of unsharded parameters and gradients
  int right = 0;                    // blocks whose parameters were still where forward saw them

  void note_borrowed(const Context& context) {
    for (const auto kind : {MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
      borrowed += context.ledger.count(kind).reserved_peak;
    }
  }
};

/// One unit on one rank.
struct Unit {
  Context& context;
  comm::Communicator& world;
  Run& run;
  Row& row;           // stores shards only
  Gradient gradient;  // lesson 10's
  Tensor slot;        // memory for the unsharded parameters; all blocks use the same one
  bool poison;        // whether discarded parameters are overwritten with NaN

  //! [gather]
  void gather() {
    world.all_gather(*context.compute, row.flat.parameter_shard(), slot);
    row.flat.show_parameters(slot);
    note("U.");
  }

  void discard() {
    row.flat.show_parameters();  // the views show the shard; a layer cannot compute with it
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (poison) ops::fill(*context.compute, {.x = slot, .value = nan});
    note("R.");
  }
  //! [gather]

  // The bug: backward does not gather, but looks for the parameters where they were in forward.
  void remember() {
    row.flat.show_parameters(slot);
    const Tensor mine = slot.slice(row.mine.begin, row.mine.size());
    if (context.rank != 0) return;
    run.right += std::ranges::equal(row.flat.parameter_shard().span<float>(), mine.span<float>());
  }

  void note(const std::string& event) {
    if (context.rank == 0) run.events.push_back(event + short_name(gradient.unit.name));
  }
};

/// Memory for the unsharded parameters of a unit.
inline Buffer slot_for(Context& context, const Row& row) {
  return Buffer(context.ledger, MemoryClass::unsharded_parameters,
                row.flat.layout().padded_numel() * sizeof(float));
}

}  // namespace lesson
