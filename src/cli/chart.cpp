#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bench/numbers.h"

namespace nanofsdp::cli {
namespace {

constexpr double kRight = 680, kNames = kRight + 12;

// The distance between ticks: 1, 2 or 5 times a power of ten, such that at most five ticks fit.
double tick_step(double span) {
  double step = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) step *= span / step > 5 ? factor : 1;
  return step;
}

std::string number(double x) {
  return std::abs(x) < 1000 ? fmt::format("{:g}", x) : grouped(std::llround(x));
}

// The least and the largest value that the chart shows upwards.
std::pair<double, double> range_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Chart::Line& line : chart.lines) {
    for (const Chart::Point& point : line.points) {
      low = std::min(low, point.low);
      high = std::max(high, point.high);
    }
  }
  if (chart.from_zero || low > high) low = std::min(low, 0.0);
  high = std::max(high, low);
  const double margin = std::max({0.05 * (high - low), 1e-3 * std::abs(high), 1e-9});
  return {chart.from_zero ? low : low - margin, high + margin};
}

}  // namespace

std::string draw_chart(const Chart& chart, double top, double height) {
  const auto [low, high] = range_of(chart);
  const auto x = [&](double at) { return kChartLeft + (kRight - kChartLeft) * at / chart.last; };
  const auto y = [top, height, high = high, span = high - low](double value) {
    return top + height * (high - value) / span;
  };
  std::string svg = svg_text(kChartLeft, top - 8, "start", chart.title) +
                    svg_text((kChartLeft + kRight) / 2, top + height + 34, "middle", chart.across);
  const double up = tick_step(high - low), right = std::max(1.0, tick_step(chart.last));
  for (double i = std::ceil(low / up); i * up <= high; ++i) {
    svg +=
        fmt::format(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/>)", kChartLeft, y(i * up), kRight) +
        svg_text(kChartLeft - 8, y(i * up) + 4, "end", number(i * up));
  }
  for (double at = 0; at <= chart.last; at += right)
    svg += svg_text(x(at), top + height + 16, "middle", number(at));
  double name_at = top + 8;
  for (const auto& [name, colour, width, points] : chart.lines) {
    if (points.empty()) continue;
    const auto stroke = fmt::format(R"(stroke="{}" stroke-width="{}")", colour, width);
    std::string corners;
    for (const auto& [at, least, most] : points)
      corners += fmt::format("{0:.1f},{1:.1f} {0:.1f},{2:.1f} ", x(at), y(least), y(most));
    svg += fmt::format("<polyline points=\"{}\" {}/>\n", corners, stroke);
    if (name.empty()) continue;
    svg += fmt::format(R"(<path d="M{} {}h24" {}/>)", kNames, name_at, stroke) +
           svg_text(kNames + 32, name_at + 4, "start", name);
    name_at += 18;
  }
  return svg;
}

std::string svg_text(double x, double y, const char* anchor, const std::string& words) {
  std::string safe;
  for (const char c : words) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     safe);
}

std::string svg_page(double height, const std::string& body) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {0}" style="max-width:900px">
<style>text{{font:12px sans-serif;fill:#333}}
polyline{{fill:none;stroke-linecap:round;stroke-linejoin:round}}</style>
<rect width="900" height="{0}" fill="#fff"/>
{1}</svg>
)",
      height, body);
}

}  // namespace nanofsdp::cli
