#pragma once

#include <string>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief Draws charts as SVG: lines over numbers, with the names of the lines beside them.

/// A chart. Its title says which quantity it shows upwards, and in which unit.
struct Chart {
  /// A point stands for all values from `low` to `high`.
  struct Point {
    double x, low, high;
  };

  /// A line through points, from left to right. A line without points is left out.
  struct Line {
    std::string name;  ///< written beside the chart; empty: nothing is
    /// One of Okabe and Ito's colours, which colour-blind readers can tell apart.
    const char* colour;
    double width;  ///< in pixels
    std::vector<Point> points{};
  };

  std::string title;
  bool from_zero = true;      ///< whether the lower end is 0
  std::string across;         ///< the quantity that the chart shows to the right
  double last;                ///< value at the right end; the left end is 0
  std::vector<Line> lines{};  ///< a later line covers an earlier one
};

/// Pixels from the left end of a page to the left end of a chart.
inline constexpr double kChartLeft = 80;

/// Draws the chart as a part of an SVG, with one line of text above it and two below it.
/// @param top, height of the room between these lines, in pixels
std::string draw_chart(const Chart& chart, double top, double height);

/// Writes words in an SVG, as a text of their own.
/// @param anchor which end of the words lies at x: "start", "middle" or "end"
std::string svg_text(double x, double y, const char* anchor, const std::string& words);

/// Makes an SVG file that is as wide as charts are. The ground is white, so it can be read on a
/// dark page.
std::string svg_page(double height, const std::string& body);

}  // namespace nanofsdp::cli
