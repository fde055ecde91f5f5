#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/context.h"
#include "comm/mesh.h"
#include "data/dataset.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/tape.h"
#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief The room `train`: nanoGPT's training loop on one rank of a sharded model.
///
/// Comes in: a rank's context and communicator, options, a dataset. Goes out: the results of each
/// step and evaluation, to a listener; checkpoints and weights, to files (store/).

/// The number of steps that are traced: from the eleventh step of a run on, or the last steps of a
/// shorter run.
inline constexpr std::int64_t kTracedSteps = 3;

/// The results of one optimizer step.
struct StepResult {
  double loss = 0;       ///< mean over the tokens of all ranks
  double grad_norm = 0;  ///< norm before clipping
  double lr = 0;
  double seconds = 0;
};

struct EvalResult {
  double train_loss = 0;
  double val_loss = 0;
};

/// A trainer calls these functions on every rank when something happens in a run. This class
/// ignores all of it.
class Listener {
 public:
  virtual ~Listener() = default;
  /// The ranks agree, and no step has begun.
  virtual void started() {}
  virtual void resumed(const std::string& /*checkpoint*/, std::int64_t /*iteration*/) {}
  virtual void step(std::int64_t /*iteration*/, const StepResult&) {}
  virtual void evaluation(std::int64_t /*iteration*/, const EvalResult&) {}
  virtual void saved(const std::string& /*path*/) {}
  /// An evaluation, and the saves that belong to it, are over; or a run ends with a RunError.
  virtual void settled() {}
};

/// A trainer and its model.
///
/// It is seeded as nanoGPT is: one generator draws the weights, and then the batches of each step.
/// Evaluations have a generator of their own, which is seeded again each time, so their number does
/// not change the training. A resumed run has the same losses as a run that was never interrupted:
/// the same bits at the same number of ranks and threads, and equal up to rounding at another
/// number.
class Trainer {
 public:
  /// Builds and initialises the model. Collective.
  /// @param options, dataset outlive the trainer
  Trainer(Context& context, std::unique_ptr<comm::Communicator> world,
          const TrainerOptions& options, const data::Dataset& dataset)
      : Trainer(context,
                comm::Mesh(std::move(world), options.shard_size, options.reshard_after_forward),
                options, dataset) {}
  /// The same for a mesh that exists already, which may be one of a simulated device.
  Trainer(Context& context, comm::Mesh mesh, const TrainerOptions& options,
          const data::Dataset& dataset);

  /// Makes up to max_iters steps. It evaluates before the first step, every eval_interval steps,
  /// and after the last. If out_dir is set, an evaluation saves a checkpoint, from which a run can
  /// go on (init_from "resume"), and the weights of the whole model, for other programs. It saves
  /// if the validation loss has fallen, or always (always_save_checkpoint).
  /// @throws RunError, on every rank, at the first step, evaluation or checkpoint whose numbers are
  ///   not finite: the error names the step and the unit; files that were saved before stay
  void run(Listener& listener);

  /// Makes one optimizer step.
  StepResult step(std::int64_t iteration);

  /// Computes mean losses over eval_iters random batches of each split.
  EvalResult evaluate();

  /// Lets the model write a text of `length` tokens.
  std::string sample(std::int64_t length);

  comm::Mesh& mesh() { return mesh_; }
  fsdp::ShardedModel& model() { return sharded_; }
  fsdp::AdamW& optimizer() { return optimizer_; }
  nn::Tape& tape() { return tape_; }

  /// Ends a run whose step went wrong. Every rank calls this with its result of the step.
  /// @throws RunError naming the first gradient, unless loss and norm of the gradients are finite
  void require_finite(std::int64_t iteration, const StepResult& result);

 private:
  void require_agreement();
  void resume();
  void save(std::int64_t iteration, double val_loss, Listener& listener);
  void require_finite(std::int64_t iteration, const EvalResult& result);
  void require_finite_state(std::int64_t iteration);
  [[noreturn]] void stop(std::int64_t iteration, const std::string& got) const;
  void trace(std::int64_t iteration);
  void forward_backward(std::int64_t iteration, const data::MicroStep& micro_step,
                        const std::array<Tensor, 2>& batch, bool last);
  void evaluate_batch(data::Split split, Generator& generator, Tensor total);
  Tensor loss_sums() const;
  void clear_losses();
  std::array<double, 2> losses_over_ranks();
  std::array<Tensor, 2> draw(data::Split split, Generator& generator, data::BatchRows rows,
                             bool counts = true);

  Context& context_;
  const TrainerOptions& options_;
  const data::Dataset& dataset_;
  comm::Mesh mesh_;
  Generator generator_;
  gpt::GPT model_;
  fsdp::ShardedModel sharded_;
  nn::Tape tape_;
  fsdp::AdamW optimizer_;
  data::StepShape shape_;
  std::vector<data::MicroStep> plan_;  // this rank's share of a step
  std::vector<std::int32_t> drawn_;    // x and y, where the host draws them
  Buffer batch_;                       // int32: x and y, where the model reads them
  Buffer losses_;                      // float64 [W, 2]: each rank adds its losses to its own row
  std::shared_ptr<void> owned_;  // the directory of saved files, on rank 0 of a run that saves
  std::int64_t first_ = 0;       // the iteration at which this run began
  std::int64_t saved_ = -1;      // iteration of the last checkpoint; -1: none yet
  double best_val_loss_ = std::numeric_limits<double>::infinity();
};

}  // namespace nanofsdp::train
