#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/ledger.h"

namespace nanofsdp::cli {

/// @file
/// @brief A run to look at: DIR/run.svg, the curves of training and what the memory went to.

/// Values over iterations, in bounded room: where there are more than a picture is wide, neighbours
/// become one point that spans what they were, so that no peak is lost.
class Curve {
 public:
  struct Point {
    std::int64_t iteration;
    double low, high;
  };

  /// Leaves out what is not finite, and iterations that are not after the last.
  void add(std::int64_t iteration, double value);

  const std::vector<Point>& points() const { return points_; }
  std::int64_t last() const { return last_; }  ///< iteration; -1: none

 private:
  std::vector<Point> points_;
  std::int64_t last_ = -1;
  std::int64_t each_ = 1;  // values that become one point
  std::int64_t room_ = 0;  // for so many more in the last one
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

/// Words in an SVG, in a line of its own. @param anchor which end of them lies at x
std::string svg_text(double x, double y, const char* anchor, const std::string& words,
                     const char* fill = "#333");

std::filesystem::path run_picture_path(const std::string& out_dir);

/// The picture as SVG: loss, gradient norm and tokens/s over iterations, from 0 to where `run` is,
/// `reference` over them, and the ledger's peaks by class. On a white ground, so that it can be
/// read on a dark page, too.
std::string draw_run(const std::string& title, const Curves& run, const Curves& reference,
                     const Ledger& ledger);

}  // namespace nanofsdp::cli
