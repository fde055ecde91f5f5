#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ledger.h"
#include "cli/chart.h"

namespace nanofsdp::cli {

/// @file
/// @brief A run to look at: DIR/run.svg, the curves of training and what the memory went to.

/// Values over iterations.
class Curve {
 public:
  /// Leaves out what is not finite, and iterations that are not after the last.
  void add(std::int64_t iteration, double value);

  /// What is drawn up to iteration `last`: at most 500 points. Where there are more values,
  /// neighbours become one point that spans them, so that no peak is lost.
  std::vector<Chart::Point> points(std::int64_t last) const;
  bool empty() const { return values_.empty(); }
  std::int64_t last() const { return last_; }  ///< iteration; -1: none

 private:
  std::vector<std::pair<float, float>> values_;  // as exact as a picture, in half the memory
  std::int64_t last_ = -1;
};

/// What is drawn of one run.
struct Curves {
  Curve loss, val_loss, grad_norm, tokens_per_s;

  /// Adds what a metrics file says of iterations before `end`. Passes over any line that is no JSON
  /// object with "iter", as a run that was killed may leave one.
  /// @throws UsageError as MappedFile
  void read(const std::string& path, const Fault& fault,
            std::int64_t end = std::numeric_limits<std::int64_t>::max());
};

/// The run that `--reference` names: a metrics file of ours, or of any program that writes "iter",
/// "loss" and, if they have it, "grad_norm".
/// @throws UsageError if there is no such file, or no loss in it
Curves read_reference(const std::string& path);

std::filesystem::path run_picture_path(const std::string& out_dir);

/// The picture as SVG: loss, gradient norm and tokens/s over iterations, from 0 to where `run` is,
/// `reference` over them, and the ledger's peaks by class.
std::string draw_run(const std::string& title, const Curves& run, const Curves& reference,
                     const Ledger& ledger);

}  // namespace nanofsdp::cli
