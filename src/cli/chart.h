#pragma once

#include <string>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief Charts as SVG: lines over numbers or over words, with the names of the lines beside them.

/// One chart. Its title says what it shows upwards, and in which unit.
struct Chart {
  /// A point stands for all values from `low` to `high`. Over words it is a dot, or a ring.
  struct Point {
    double x, low, high;
    bool is_ring = false;
  };

  /// A line through points, from the left to the right. One without points is left out.
  struct Line {
    std::string name;    ///< stands beside the chart; empty: nothing does
    const char* colour;  ///< one of Okabe and Ito's, which colour-blind readers can tell apart
    double width;        ///< in pixels
    std::vector<Point> points{};
  };

  std::string title;
  bool from_zero = true;             ///< whether 0 is the lower end
  std::string across;                ///< what the chart shows to the right
  double last;                       ///< the right end; the left one is 0
  std::vector<std::string> words{};  ///< stand below 0, 1, 2 ... `last`; empty: numbers do
  std::vector<Line> lines{};         ///< a later line covers an earlier one
};

inline constexpr double kChartLeft = 80;  ///< pixels from the left end of a page to that of a chart

/// The chart as part of an SVG. One line of text stands above it, and two below it.
/// @param top, height of the room between these, in pixels
std::string draw_chart(const Chart& chart, double top, double height);

/// Words in an SVG, in a line of their own.
/// @param anchor which end of them lies at x: "start", "middle" or "end"
std::string svg_text(double x, double y, const char* anchor, const std::string& words);

/// An SVG file, as wide as charts are. Its ground is white, so that it can be read on a dark page.
std::string svg_page(double height, const std::string& body);

}  // namespace nanofsdp::cli
