#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/context.h"
#include "comm/counting.h"
#include "fsdp/overlap.h"
#include "fsdp/plan.h"
#include "fsdp/sharded_model.h"
#include "train/dataset.h"
#include "train/options.h"
#include "train/run_picture.h"

namespace nanofsdp::train {

/// @file
/// @brief What a person sees of a run: summary, progress, evaluations, final table; and the metrics
/// file for programs.

/// So many steps of a run are traced, from the eleventh on, or the last of a shorter run.
inline constexpr std::int64_t kTracedSteps = 3;

/// One optimizer step.
struct StepResult {
  double loss = 0;       ///< mean over the tokens of all ranks
  double grad_norm = 0;  ///< before clipping
  double lr = 0;
  double seconds = 0;
};

struct EvalResult {
  double train_loss = 0;
  double val_loss = 0;
};

/// Tells rank 0's story; on other ranks every function does nothing, but for start().
///
/// MFU, model FLOPs utilisation, is nanoGPT's (PaLM, Chowdhery et al. 2022, appendix B): a token
/// costs 6 N + 12 L H Q T operations, where N are the parameters without the positions', L layers,
/// H heads of width Q, T the context. A rank's share of a step's, in a second, over what its
/// threads can compute (peak.h), measured at the start. Recomputation does not count.
class Report {
 public:
  /// @throws UsageError if --reference cannot be read
  Report(const TrainOptions& options, int rank);

  /// Says what is about to be trained, on what, and how it is shared. Makes the directory of
  /// saved files and the file of metrics, to which a resumed run adds: from here on, what cannot be
  /// printed or written is an error.
  /// Every rank measures what its threads can compute, all at a time.
  /// @throws UsageError, as all that follow, if standard output or that file is full
  void start(const Context& context, const Dataset& dataset, fsdp::ShardedModel& model,
             const fsdp::Plan& plan);
  void step(std::int64_t iteration, const StepResult& result, const comm::Traffic& traffic,
            const Ledger& ledger);
  void evaluation(std::int64_t iteration, const EvalResult& result);
  /// The run so far, as a picture in the directory of saved files (run_picture.h). One of more
  /// steps may be there: before there are any, it stays.
  void draw(const Ledger& ledger);
  void resumed(const std::string& checkpoint, std::int64_t iteration);
  void saved(const std::string& path);
  void finish(const comm::Traffic& traffic, const Ledger& ledger, const fsdp::Plan& plan,
              const fsdp::Overlap& overlap);
  void sample(const std::string& text);

 private:
  double utilisation(double seconds) const { return flops_ / seconds / peak_flops_; }
  void line(const std::string& text, bool stays = true);  // or gives way to the next, as progress

  const TrainOptions& options_;
  bool speaks_;
  bool terminal_;
  bool wipe_ = false;  // the line before
  std::ofstream metrics_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  comm::Traffic traffic_;    // at the end of the step before
  comm::Traffic last_step_;  // of that step
  std::int64_t numel_ = 0;   // of the model
  double flops_ = 0;         // of a step, the model's alone, a rank
  double peak_flops_ = 0;    // of a rank, a second; 0: unknown
  std::string title_;        // of the picture
  Curves curves_, reference_;
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  EvalResult last_evaluation_;
};

}  // namespace nanofsdp::train
