#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "10_zero_2_gradients/gradient_shard.h"

/// @file
/// @brief A unit whose whole parameters come and go: lesson 11's idea.

namespace lesson {

/// What the lesson looks at beside the numbers.
struct Run : Trained {
  using Trained::Trained;
  std::vector<std::string> events;  // of rank 0 in the last step
  std::int64_t borrowed = 0;        // bytes of whole parameters and gradients, at most
  int right = 0;                    // remembered blocks that were still there

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
  Row& row;           // which stores shards only
  Gradient gradient;  // lesson 10's
  Tensor slot;        // memory for the whole parameters; all blocks share one
  bool poison;

  //! [gather]
  void gather() {
    world.all_gather(*context.compute, row.flat.parameter_shard(), slot);
    row.flat.show_parameters(slot);
    note("U.");
  }

  void discard() {
    // The shard: nothing that a layer could compute with.
    row.flat.show_parameters();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (poison) ops::fill(*context.compute, {.x = slot, .value = nan});
    note("R.");
  }
  //! [gather]

  // What backward does instead if it believes that addresses of forward are still good.
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

/// Memory for the whole parameters of a unit.
inline Buffer slot_for(Context& context, const Row& row) {
  return Buffer(context.ledger, MemoryClass::unsharded_parameters,
                row.flat.layout().padded_numel() * sizeof(float));
}

}  // namespace lesson
