#pragma once

#include <cstdint>
#include <vector>

#include "comm/local.h"
#include "plan/plan.h"
#include "train/trainer.h"

/// @file
/// @brief The library's runs and plans, for lesson 21.

namespace lesson {

using namespace nanofsdp;

/// Bytes that one rank keeps between steps, borrows for unsharded units, and sends in a step.
struct Rank {
  std::int64_t kept = 0, borrowed = 0, sent = 0;
  friend bool operator==(const Rank&, const Rank&) = default;
};

/// The losses of a run, and the bytes of rank 0 in the last step.
struct Run {
  std::vector<double> losses;
  Rank rank;
};

/// nanoGPT's recipe on the tales under full_shard. The W ranks are threads.
inline Run train(int W, int steps, double learning_rate, const data::Dataset& text) {
  train::TrainerOptions o;
  o.learning_rate = learning_rate;
  Run run;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    train::Trainer trainer(context, std::move(world), o, text);
    for (int step = 0; step < steps; ++step) {
      const std::int64_t before = trainer.mesh().traffic().bytes_sent;
      const double loss = trainer.step(step).loss;
      if (context.rank != 0) continue;
      run.losses.push_back(loss);
      run.rank.sent = trainer.mesh().traffic().bytes_sent - before;
    }
    if (context.rank != 0) return;
    const auto bytes = [&](MemoryClass c) { return context.ledger.count(c).reserved; };
    run.rank.kept = bytes(MemoryClass::parameter_shards) + bytes(MemoryClass::gradient_shards) +
                    bytes(MemoryClass::optimizer);
    run.rank.borrowed =
        bytes(MemoryClass::unsharded_parameters) + bytes(MemoryClass::unsharded_gradients);
  });
  return run;
}

/// Parameters, gradients and optimizer state: what is there between two steps.
inline std::int64_t at_rest(const plan::Plan& plan) {
  return plan.of(MemoryClass::parameter_shards) + plan.of(MemoryClass::gradient_shards) +
         plan.of(MemoryClass::optimizer);
}

/// The bytes that the engine holds and sends under full_shard, in float32 with Adam, on a simulated
/// device.
struct Planned {
  Rank rank;
  std::vector<std::int64_t> units;  ///< elements, the root's last
};
inline Planned plan(nn::Module& model, int W, const fsdp::WrapPolicy& units) {
  const plan::Plan plan = plan::plan(
      model,
      {.ranks = W, .options = {.alignment = 1, .wrap_policy = units}, .work = {.rows = {1}}});
  return {{at_rest(plan),
           plan.of(MemoryClass::unsharded_parameters) + plan.of(MemoryClass::unsharded_gradients),
           plan.step.bytes_sent},
          plan.units};
}

}  // namespace lesson
