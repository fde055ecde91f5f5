#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "train/trainer.h"

namespace lesson {

/// @file
/// @brief A training run of the library, for comparison.

/// The loss of each step, and its gradient norm before clipping.
struct Curve {
  explicit Curve(int steps)
      : losses(static_cast<std::size_t>(steps)), norms(static_cast<std::size_t>(steps)) {}
  std::vector<double> losses, norms;
};

/// The first steps of a run on W ranks that are threads.
inline Curve train(int W, int steps, const nanofsdp::train::TrainerOptions& options,
                   const nanofsdp::data::Dataset& text) {
  using namespace nanofsdp;
  Curve curve(steps);
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    train::Trainer trainer(context, std::move(world), options, text);
    for (std::size_t step = 0; step < curve.losses.size(); ++step) {
      const train::StepResult here = trainer.step(static_cast<std::int64_t>(step));
      if (context.rank == 0) curve.losses[step] = here.loss, curve.norms[step] = here.grad_norm;
    }
  });
  return curve;
}

}  // namespace lesson
