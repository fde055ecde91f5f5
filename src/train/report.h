#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "comm/counting.h"
#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief What a person sees of a run: summary, progress, evaluations, final table; and the metrics
/// file for programs.

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

/// One unit, for the summary.
struct UnitLine {
  std::string name;
  std::int64_t numel = 0;
  std::int64_t shard_numel = 0;
  std::int64_t padding = 0;
};

struct RunSummary {
  std::int64_t parameters = 0;
  std::vector<UnitLine> units;
  std::string strategy;
  std::string data;  ///< "tales, 1,000,000 characters, 900,000 to train on"
  std::int64_t vocab_size = 0;
  std::int64_t decayed = 0;  ///< parameters of all ranks that weight decay touches
  std::int64_t undecayed = 0;
  int ranks = 1;
  int threads = 1;
};

/// Tells rank 0's story; on other ranks every function does nothing.
class Report {
 public:
  /// @throws UsageError if the metrics file cannot be written
  Report(const TrainOptions& options, int rank);

  void start(const RunSummary& summary, const Ledger& ledger);
  void step(std::int64_t iteration, const StepResult& result, const comm::Traffic& traffic,
            const Ledger& ledger);
  void evaluation(std::int64_t iteration, const EvalResult& result);
  void saved(const std::string& path);
  void finish(const comm::Traffic& traffic, const Ledger& ledger);
  void sample(const std::string& text);

  /// Whether the loss of this step is wanted: it costs a collective.
  bool wants_loss(std::int64_t iteration) const;

 private:
  void line(const std::string& text);      // on its own; wipes a progress line
  void progress(const std::string& text);  // over the progress line before
  void write_metrics(std::int64_t iteration, const StepResult& result, const comm::Traffic& traffic,
                     const Ledger& ledger);

  const TrainOptions& options_;
  bool speaks_;
  bool terminal_;
  bool progress_shown_ = false;
  int ranks_ = 1;
  std::ofstream metrics_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  comm::Traffic traffic_;  // at the end of the step before
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  EvalResult last_evaluation_;
};

}  // namespace nanofsdp::train
