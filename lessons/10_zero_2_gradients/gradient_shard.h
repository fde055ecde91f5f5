#pragma once

#include <cstdint>
#include <utility>

#include "09_zero_1_optimizer/optimizer_shard.h"
#include "fsdp/wrap.h"

/// @file
/// @brief The gradient of a unit: unsharded while backward is in the unit, then a shard. This is
/// lesson 10's idea; lesson 11 uses it too.

namespace lesson {

/// The gradient of one unit on one rank.
struct Gradient {
  Context& context;
  comm::Communicator& world;
  const fsdp::WrappedModule& unit;
  Row& row;           // stores the shard
  Buffer whole{};     // the unsharded gradient, while it is borrowed
  bool first = true;  // whether this is the first micro-batch of the step

  //! [borrow]
  void borrow() {
    const std::int64_t n = row.flat.layout().padded_numel();
    whole = Buffer(context.ledger, MemoryClass::unsharded_gradients, n * sizeof(float));  // zeros
    row.flat.show_gradients(whole.tensor({n}));
  }
  //! [borrow]

  //! [reduce]
  void reduce() {
    Stream& stream = *context.compute;
    const Tensor all = whole.tensor({row.flat.layout().padded_numel()});
    const Tensor landed = all.slice(row.mine.begin, row.mine.size());  // in place
    world.reduce_scatter(stream, all, landed, comm::ReduceOp::average);
    if (std::exchange(first, false)) {
      ops::copy(stream, {.in = landed, .out = row.flat.gradient_shard()});
    } else {
      ops::accumulate(stream, {.in = landed, .out = row.flat.gradient_shard()});
    }
    row.flat.show_gradients();  // the views show the shard again
    whole = Buffer();           // frees the memory
  }
  //! [reduce]
};

}  // namespace lesson
