#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "cli/options.h"
#include "cli/run_picture.h"
#include "plan/plan.h"
#include "train/trainer.h"

namespace nanofsdp::cli {

/// @file
/// @brief Prints a run for people: summary, progress, evaluations and a final table. Writes the
/// metrics file for programs.

/// Prints for rank 0. On other ranks its functions do nothing, except started().
///
/// MFU is model FLOPs utilisation (PaLM, Chowdhery et al. 2022, appendix B). It divides the
/// operations per second of a rank by the rate that its threads can reach (bench.h), which is
/// measured at the start. The operations are those of the model's products for the rank's rows, as
/// the operators state them. In attention only the pairs that the causal mask leaves count.
/// Recomputation does not count.
class Report final : public train::Listener {
 public:
  /// @param options, context, dataset, trainer outlive the report
  /// @throws UsageError if --reference cannot be read
  Report(const TrainOptions& options, const Context& context, const data::Dataset& dataset,
         train::Trainer& trainer);

  /// Clears a line of progress, so that an error does not follow on it.
  ~Report() override { std::fputs(wipe_ ? "\r\x1b[K" : "", stdout), std::fflush(stdout); }

  /// Prints the model, the machine and the sharding of the training that begins. Unless the run is
  /// resumed, sets aside what another run saved in the directory of saved files. Makes the file of
  /// metrics, to which a resumed run adds. After that, it is an error if text cannot be printed or
  /// written. All ranks measure at the same time how fast their threads compute.
  /// @throws UsageError, like all functions that follow, if standard output or that file is full
  void started() override;
  void resumed(const std::string& checkpoint, std::int64_t iteration) override;
  void step(std::int64_t iteration, const train::StepResult& result) override;
  void evaluation(std::int64_t iteration, const train::EvalResult& result) override;
  void saved(const std::string& path) override;
  /// Draws the run so far as a picture in the directory of saved files (run_picture.h). Before the
  /// first step it draws nothing, so the picture of an earlier run stays.
  void settled() override;

  /// Prints the final table.
  void finish();
  void sample(const std::string& text);

 private:
  double utilisation(double seconds) const { return flops_ / seconds / peak_flops_; }
  plan::Plan plan(gpt::Recompute recompute) const;  // the plan of this rank
  plan::Plan planned() const { return plan(options_.recompute); }
  // If it does not stay, the next line replaces it, as in progress.
  void line(const std::string& text, bool stays = true);
  void open_files();
  // Adds a line of metrics to the curves, and to the file if there is one.
  void record(const nlohmann::ordered_json& json);

  const TrainOptions& options_;
  const Context& context_;
  const data::Dataset& dataset_;
  train::Trainer& trainer_;
  bool speaks_;
  bool terminal_;
  bool wipe_ = false;  // whether the next line replaces the last one
  std::ofstream metrics_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  comm::Traffic traffic_;    // traffic until the end of the last step
  comm::Traffic last_step_;  // traffic of the last step
  double flops_ = 0;         // the model's operations of a rank in a step
  double peak_flops_ = 0;    // operations that a rank can reach in a second; 0: unknown
  std::string title_;        // title of the picture
  Curves curves_, reference_;
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  train::EvalResult last_evaluation_;
};

}  // namespace nanofsdp::cli
