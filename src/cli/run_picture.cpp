#include "cli/run_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/file.h"
#include "bench/numbers.h"

namespace nanofsdp::cli {
namespace {

constexpr std::size_t kMostPoints = 500;

// Colours that colour-blind readers can tell apart (after Okabe and Ito), also where one line
// covers another.
constexpr const char *kOurs = "#56b4e9", *kVal = "#009e73", *kReference = "#333333";

// The colours that the lessons give to parameters, gradients, the optimizer, activations and
// all-gathers, by class of memory.
constexpr const char* kHeld[] = {"#56b4e9", "#e69f00", "#009e73", "#56b4e9",
                                 "#e69f00", "#cccccc", "#9a6fd0"};

// Pixels from the left end of the picture to both ends of a chart, and to the names of its lines.
constexpr double kLeft = 80, kRight = 680, kNames = kRight + 12;
constexpr double kHeight = 150;  // the height of a chart, in pixels

// A line of a chart, from left to right. A line without points is left out.
struct Line {
  std::string name;  // written beside the chart; empty: nothing is
  const char* colour;
  double width;  // in pixels
  std::vector<Curve::Point> points;
};

// Words, as a text of their own. The anchor says which end of them lies at x.
std::string text(double x, double y, const char* anchor, const std::string& words) {
  std::string safe;
  for (const char c : words) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     safe);
}

// The distance between ticks: 1, 2 or 5 times a power of ten, such that at most five ticks fit.
double tick_step(double span) {
  double step = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) step *= span / step > 5 ? factor : 1;
  return step;
}

std::string number(double x) {
  if (std::abs(x) < 1000 || std::abs(x) > 1e15) return fmt::format("{:g}", x + 0.0);  // no "-0"
  return grouped(std::llround(x));
}

// The least and the largest value that a chart shows upwards.
std::pair<double, double> range_of(const std::vector<Line>& lines, bool from_zero) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Line& line : lines)
    for (const Curve::Point& point : line.points)
      low = std::min(low, point.low), high = std::max(high, point.high);
  if (from_zero || low > high) low = std::min(low, 0.0);
  high = std::max(high, low);
  const double margin = std::max({0.05 * (high - low), 1e-3 * std::abs(high), 1e-9});
  return {from_zero ? low : low - margin, high + margin};
}

// Draws lines over the iterations from 0 to `last`. A later line covers an earlier one.
// `from_zero` says whether the lower end is 0. `y` moves below the chart.
std::string chart(const char* title, bool from_zero, double last, const std::vector<Line>& lines,
                  double& y) {
  const auto [low, high] = range_of(lines, from_zero);
  const double top = y;
  const auto across = [&](double at) { return kLeft + (kRight - kLeft) * at / last; };
  const auto up = [top, high = high, span = high - low](double value) {
    return top + kHeight * (high - value) / span;
  };
  std::string svg = text(kLeft, top - 8, "start", title) +
                    text((kLeft + kRight) / 2, top + kHeight + 34, "middle", "iteration");
  const double step = tick_step(high - low), right = std::max(1.0, tick_step(last));
  for (double i = std::ceil(low / step); i * step <= high; ++i)
    svg += fmt::format(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/>)", kLeft, up(i * step), kRight) +
           text(kLeft - 8, up(i * step) + 4, "end", number(i * step));
  for (double at = 0; at <= last; at += right)
    svg += text(across(at), top + kHeight + 16, "middle", number(at));
  double name_at = top + 8;
  for (const auto& [name, colour, width, points] : lines) {
    if (points.empty()) continue;
    const auto stroke = fmt::format(R"(stroke="{}" stroke-width="{}")", colour, width);
    std::string corners;
    for (const auto& [at, least, most] : points)
      corners += fmt::format("{0:.1f},{1:.1f} {0:.1f},{2:.1f} ", across(at), up(least), up(most));
    svg += fmt::format("<polyline points=\"{}\" {}/>\n", corners, stroke);
    if (name.empty()) continue;
    svg += fmt::format(R"(<path d="M{} {}h24" {}/>)", kNames, name_at, stroke) +
           text(kNames + 32, name_at + 4, "start", name);
    name_at += 18;
  }
  y += kHeight + 56;
  return svg;
}

// Draws a bar for each class that held memory. `y` moves below the bars.
std::string memory(const Ledger& ledger, double& y) {
  const auto total = static_cast<double>(std::max<std::int64_t>(ledger.total_peak(), 1));
  std::string svg = text(kLeft, y - 8, "start",
                         fmt::format("memory of a rank: {} at its peak; each class at its own",
                                     megabytes(ledger.total_peak())));
  for (const MemoryClass c : kMemoryClasses) {
    const std::int64_t bytes = ledger.count(c).reserved_peak;
    if (bytes == 0) continue;
    const double left = kLeft + 158, width = 400 * static_cast<double>(bytes) / total;
    svg += text(left - 8, y + 14, "end", std::string(name_of(c))) +
           fmt::format(R"(<rect x="{}" y="{}" width="{:.1f}" height="14" fill="{}"/>)", left, y + 3,
                       width, kHeld[static_cast<std::size_t>(c)]) +
           text(left + width + 8, y + 14, "start", grouped(bytes) + " bytes");
    y += 20;
  }
  return svg;
}

}  // namespace

void Curve::add(std::int64_t iteration, double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded)) return;
  while (last() >= iteration) values_.pop_back();
  values_.emplace_back(iteration, rounded);
}

std::vector<Curve::Point> Curve::points(std::int64_t last) const {
  const auto after = [last](const auto& value) { return value.first > last; };
  const auto n = static_cast<std::size_t>(std::ranges::find_if(values_, after) - values_.begin());
  const std::size_t each = (n + kMostPoints - 1) / kMostPoints;
  std::vector<Point> points;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = values_[i].second;
    if (i % each == 0) points.push_back({1.0 * values_[i].first, value, value});
    points.back().low = std::min(points.back().low, value);
    points.back().high = std::max(points.back().high, value);
  }
  return points;
}

void Curves::add(const nlohmann::json& line, std::int64_t end) {
  const auto value = [&](const char* name) {
    const bool there = line.is_object() && line.contains(name) && line[name].is_number();
    return there ? line[name].get<double>() : std::nan("");
  };
  const double iter = value("iter");
  if (!(iter >= 0 && iter < std::min(static_cast<double>(end), 1e12))) return;
  const auto iteration = static_cast<std::int64_t>(iter);
  loss.add(iteration, value("loss"));
  val_loss.add(iteration, value("val_loss"));
  grad_norm.add(iteration, value("grad_norm"));
  tokens_per_s.add(iteration, value("tokens_per_s"));
}

void Curves::read(const std::string& path, const Fault& fault, std::int64_t end) {
  const MappedFile file(path, fault);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    try {
      add(parse_json(line, {}), end);
    } catch (const UsageError&) {  // perhaps half a line; the later lines count
    }
  }
}

Curves read_reference(const std::string& path) {
  Fault fault{.what = "--reference=" + path,
              .expected = "JSON objects with iter and loss, one a line",
              .got = "none"};
  Curves curves;
  curves.read(path, fault);
  if (curves.loss.empty()) throw UsageError(fault);
  return curves;
}

std::filesystem::path run_picture_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "run.svg";
}

std::string draw_run(const std::string& title, const Curves& run, const Curves& reference,
                     const Ledger& ledger) {
  const auto last = std::max({std::int64_t{1}, run.val_loss.last(), run.tokens_per_s.last()});
  double y = 56;
  std::string body = text(kLeft, 18, "start", title);
  body += chart("loss", false, last,
                {{"training", kOurs, 3, run.loss.points(last)},
                 {"validation", kVal, 1.5, run.val_loss.points(last)},
                 {"reference", kReference, 1, reference.loss.points(last)}},
                y);
  body += chart("gradient norm before clipping", true, last,
                {{"", kOurs, 3, run.grad_norm.points(last)},
                 {"", kReference, 1, reference.grad_norm.points(last)}},
                y);
  body += chart("tokens/s", true, last, {{"", kOurs, 2, run.tokens_per_s.points(last)}}, y);
  body += memory(ledger, y);
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {0}" style="max-width:900px">
<style>text{{font:12px sans-serif;fill:#333}}
polyline{{fill:none;stroke-linecap:round;stroke-linejoin:round}}</style>
<rect width="900" height="{0}" fill="#fff"/>
{1}</svg>
)",
      y + 10, body);
}

}  // namespace nanofsdp::cli
