#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/buffer.h"
#include "base/context.h"
#include "base/rng.h"
#include "comm/mesh.h"
#include "fsdp/grad_norm.h"
#include "fsdp/plan.h"
#include "fsdp/sharded_model.h"
#include "fsdp/sharded_optimizer.h"
#include "gpt/gpt.h"
#include "nn/tape.h"
#include "train/batch_plan.h"
#include "train/dataset.h"
#include "train/loss_meter.h"
#include "train/options.h"
#include "train/report.h"

namespace nanofsdp::train {

/// @file
/// @brief nanoGPT's training loop on one rank of a sharded model.
///
/// Seeded as nanoGPT: one generator draws the weights, then each step's batches. Evaluations have a
/// generator of their own, seeded anew each time, so their number changes nothing. A run that is
/// resumed has the losses of one that was never interrupted: to the bit at the same number of ranks
/// and threads, to rounding at another.
class Trainer {
 public:
  /// Builds and initialises the model. Collective.
  /// @param options, dataset outlive the trainer
  /// @param report where rank 0 tells what happens; the others' is silent
  Trainer(Context& context, std::unique_ptr<comm::Communicator> world, const TrainOptions& options,
          const Dataset& dataset, Report& report);

  /// Up to max_iters steps, with an evaluation before the first, every eval_interval steps, and
  /// after the last. Where --out_dir asks for it, evaluations save a checkpoint, for runs that go
  /// on
  /// (--init_from=resume), and the weights as a whole, for others to use: if the validation loss
  /// has fallen, or always (--always_save_checkpoint).
  /// @throws RunError, on every rank, at the first step, evaluation or checkpoint whose numbers are
  /// not finite: it names the step and the unit; what was saved before stays
  void run();

  /// One optimizer step.
  StepResult step(std::int64_t iteration);

  /// Mean losses over eval_iters random batches of each split.
  EvalResult evaluate();

  /// A text that the model writes, `length` tokens long.
  std::string sample(std::int64_t length);

  /// What this rank will hold and move.
  fsdp::Plan plan() const;

  comm::Mesh& mesh() { return mesh_; }
  fsdp::ShardedModel& model() { return sharded_; }

 private:
  void require_agreement();
  void resume();
  void save(std::int64_t iteration, double val_loss);
  void require_finite(std::int64_t iteration, const StepResult& result);
  void require_finite(std::int64_t iteration, const EvalResult& result);
  void require_finite_state(std::int64_t iteration);
  [[noreturn]] void stop(std::int64_t iteration, const std::string& got) const;
  void trace(std::int64_t iteration);
  void forward_backward(std::int64_t iteration, const MicroStep& micro_step, bool last);
  void evaluate_batch(Split split, Generator& generator, Tensor total);
  Batch drawn(std::int64_t rows);
  void send(const Batch& batch, std::int64_t rows);
  Tensor batch_tensor(int half, std::int64_t rows) const;

  Context& context_;
  const TrainOptions& options_;
  const Dataset& dataset_;
  Report& report_;
  comm::Mesh mesh_;
  Generator generator_;
  gpt::GPT model_;
  fsdp::ShardedModel sharded_;
  nn::Tape tape_;
  fsdp::GradNorm norm_;
  fsdp::ShardedOptimizer optimizer_;
  StepShape shape_;
  std::vector<MicroStep> plan_;      // this rank's share of a step
  std::vector<std::int32_t> drawn_;  // x and y, where the host draws them
  Buffer batch_;                     // int32, x and y, where the model reads them
  LossMeter losses_;
  std::int64_t first_ = 0;   // iteration of this run
  std::int64_t saved_ = -1;  // iteration of the last checkpoint; none yet
  double best_val_loss_ = std::numeric_limits<double>::infinity();
};

}  // namespace nanofsdp::train
