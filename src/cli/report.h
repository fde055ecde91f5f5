#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/context.h"
#include "cli/options.h"
#include "cli/run_picture.h"
#include "comm/traffic.h"
#include "data/dataset.h"
#include "plan/plan.h"
#include "plan/transformer.h"
#include "train/trainer.h"

namespace nanofsdp::cli {

/// @file
/// @brief What a person sees of a run: summary, progress, evaluations, final table; and the metrics
/// file for programs.

/// Tells rank 0's story; on other ranks every function does nothing, but for started().
///
/// MFU, model FLOPs utilisation (PaLM, Chowdhery et al. 2022, appendix B): the operations of the
/// model's products, as they state them, of a rank's rows, in a second, over what its threads can
/// compute (bench.h), measured at the start. Of attention the pairs that a causal mask leaves
/// count; recomputation does not.
class Report final : public train::Listener {
 public:
  /// @param options, context, dataset, trainer outlive the report
  /// @throws UsageError if --reference cannot be read
  Report(const TrainOptions& options, const Context& context, const data::Dataset& dataset,
         train::Trainer& trainer);

  /// Says what is about to be trained, on what, and how it is shared. Makes the directory of
  /// saved files and the file of metrics, to which a resumed run adds: from here on, what cannot be
  /// printed or written is an error.
  /// Every rank measures what its threads can compute, all at a time.
  /// @throws UsageError, as all that follow, if standard output or that file is full
  void started() override;
  void resumed(const std::string& checkpoint, std::int64_t iteration) override;
  void step(std::int64_t iteration, const train::StepResult& result) override;
  void evaluation(std::int64_t iteration, const train::EvalResult& result) override;
  void saved(const std::string& path) override;
  /// Draws the run so far, as a picture in the directory of saved files (run_picture.h). One of
  /// more steps may be there: before there are any, it stays.
  void settled() override;

  /// The final table.
  void finish();
  void sample(const std::string& text);

 private:
  double utilisation(double seconds) const { return flops_ / seconds / peak_flops_; }
  plan::Plan plan(gpt::Recompute recompute) const;  // of this rank
  plan::Plan planned() const { return plan(options_.recompute); }
  void line(const std::string& text, bool stays = true);  // or gives way to the next, as progress
  void open_files();

  const TrainOptions& options_;
  const Context& context_;
  const data::Dataset& dataset_;
  train::Trainer& trainer_;
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
  train::EvalResult last_evaluation_;
};

}  // namespace nanofsdp::cli
