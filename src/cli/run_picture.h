#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/ledger.h"

namespace nanofsdp::cli {

/// @file
/// @brief Draws a run as a picture, DIR/run.svg: the curves of training, and its memory by class.

/// Values over iterations.
class Curve {
 public:
  /// A point stands for all values from `low` to `high`.
  struct Point {
    double x, low, high;
  };

  /// Adds a value, unless it is not finite. Values of this iteration and of later ones are those of
  /// a run that was resumed before them, so they go.
  void add(std::int64_t iteration, double value);

  /// The points of the curve up to iteration `last`, at most 500. If there are more values,
  /// neighbours become one point that spans them, so that no peak is lost.
  std::vector<Point> points(std::int64_t last) const;
  bool empty() const { return values_.empty(); }
  /// The last iteration; -1: none.
  std::int64_t last() const { return empty() ? -1 : values_.back().first; }

 private:
  std::vector<std::pair<std::int64_t, float>> values_;  // a float is exact enough for a picture
};

/// The curves of one run.
struct Curves {
  Curve loss, val_loss, grad_norm, tokens_per_s;

  /// Adds the values of a line of metrics, if it is an object with an "iter" before `end`.
  void add(const nlohmann::json& line, std::int64_t end = std::numeric_limits<std::int64_t>::max());

  /// Adds the values of a metrics file for iterations before `end`. It skips every line that is not
  /// a JSON object with "iter", because a run that was killed may leave such a line.
  /// @throws UsageError as MappedFile
  void read(const std::string& path, const Fault& fault,
            std::int64_t end = std::numeric_limits<std::int64_t>::max());
};

/// Reads the run that `--reference` names. The file is a metrics file of ours, or of any program
/// that writes "iter", "loss" and, if it has it, "grad_norm".
/// @throws UsageError if there is no such file, or no loss in it
Curves read_reference(const std::string& path);

std::filesystem::path run_picture_path(const std::string& out_dir);

/// Draws the picture as SVG: loss, gradient norm and tokens/s over iterations, from 0 to the last
/// one of `run`, with `reference` over them, and the ledger's peaks by class.
std::string draw_run(const std::string& title, const Curves& run, const Curves& reference,
                     const Ledger& ledger);

}  // namespace nanofsdp::cli
