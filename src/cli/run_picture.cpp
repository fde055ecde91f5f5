#include "cli/run_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "bench/numbers.h"

namespace nanofsdp::cli {
namespace {

constexpr std::size_t kMostPoints = 500;
constexpr int kWidth = 860, kLeft = 80, kRight = 840, kHeight = 150, kGap = 56, kBar = 20;

// Colours that stay apart for colour-blind readers (after Okabe and Ito), and where one covers
// another.
constexpr const char *kOurs = "#56b4e9", *kVal = "#009e73", *kReference = "#333333";

// 1, 2 or 5 times a power of ten, of which at most five go into `span`.
double tick_step(double span) {
  double step = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) step *= span / step > 5 ? factor : 1;
  return step;
}

std::string number(double x) {
  return std::abs(x) < 1000 ? fmt::format("{:g}", x) : grouped(std::llround(x));
}

struct Line {
  const Curve& curve;
  const char* name;
  const char* colour;
  double width;
};

// One diagram: iterations to the right, from 0 to `last`, values upwards.
class Panel {
 public:
  Panel(const char* title, int top, std::int64_t last, std::vector<Line> lines, bool from_zero)
      : title_(title), top_(top), last_(static_cast<double>(last)), lines_(std::move(lines)) {
    for (const Line& line : lines_) {
      for (const auto& [iteration, low, high] : shown(line)) {
        low_ = std::min(low_, low);
        high_ = std::max(high_, high);
      }
    }
    if (from_zero || low_ > high_) low_ = std::min(low_, 0.0);
    high_ = std::max(high_, low_);
    const double margin = std::max({0.05 * (high_ - low_), 1e-3 * std::abs(high_), 1e-9});
    high_ += margin;
    if (!from_zero) low_ -= margin;
  }

  std::string draw() const {
    std::string svg = frame();
    double name_at = kRight;
    for (const Line& line : lines_) {
      if (line.curve.points().empty()) continue;
      svg += svg_text(name_at, top_ - 8, "end", line.name, line.colour);
      name_at -= 90;
      std::string corners;
      for (const auto& [iteration, low, high] : shown(line)) {
        corners += fmt::format("{0:.1f},{1:.1f} {0:.1f},{2:.1f} ", x(iteration), y(low), y(high));
      }
      svg += fmt::format(R"(<polyline points="{}" stroke="{}" stroke-width="{}"/>)", corners,
                         line.colour, line.width) +
             "\n";
    }
    return svg;
  }

 private:
  // What is not beyond the right end.
  std::span<const Curve::Point> shown(const Line& line) const {
    const auto& points = line.curve.points();
    const auto end = std::ranges::find_if(points, [&](const Curve::Point& point) {
      return static_cast<double>(point.iteration) > last_;
    });
    return {points.begin(), end};
  }

  double x(double iteration) const { return kLeft + (kRight - kLeft) * iteration / last_; }
  double y(double value) const { return top_ + kHeight * (high_ - value) / (high_ - low_); }

  std::string frame() const {
    std::string svg = svg_text(kLeft, top_ - 8, "start", title_);
    const double up = tick_step(high_ - low_), right = std::max(1.0, tick_step(last_));
    for (double i = std::ceil(low_ / up); i * up <= high_; ++i) {
      svg += fmt::format(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/>)", kLeft, y(i * up), kRight) +
             svg_text(kLeft - 8, y(i * up) + 4, "end", number(i * up));
    }
    for (double i = 0; i * right <= last_; ++i) {
      svg += svg_text(x(i * right), top_ + kHeight + 16, "middle", number(i * right));
    }
    return svg;
  }

  const char* title_;
  int top_;
  double last_;
  std::vector<Line> lines_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

// A bar for each class that has held anything; `y` moves below them.
std::string memory(const Ledger& ledger, int& y) {
  const auto total = static_cast<double>(std::max<std::int64_t>(ledger.total_peak(), 1));
  std::string svg = svg_text(kLeft, y - 8, "start",
                             fmt::format("memory of a rank: {} at its peak; each class at its own",
                                         megabytes(ledger.total_peak())));
  for (const MemoryClass c : kMemoryClasses) {
    const std::int64_t bytes = ledger.count(c).reserved_peak;
    if (bytes == 0) continue;
    const double width = 400 * static_cast<double>(bytes) / total;
    svg += svg_text(kLeft + 150, y + 14, "end", std::string(name_of(c)));
    svg += fmt::format(R"(<rect x="{}" y="{}" width="{:.1f}" height="{}" fill="{}"/>)", kLeft + 158,
                       y + 3, width, kBar - 6, kOurs);
    svg += svg_text(kLeft + 166 + width, y + 14, "start", grouped(bytes) + " bytes");
    y += kBar;
  }
  return svg;
}

}  // namespace

std::string svg_text(double x, double y, const char* anchor, const std::string& words,
                     const char* fill) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", x, y,
                     anchor, fill, words) +
         "\n";
}

void Curve::add(std::int64_t iteration, double value) {
  if (!std::isfinite(value) || iteration <= last_) return;
  last_ = iteration;
  if (room_-- > 0) {
    Point& point = points_.back();
    point.low = std::min(point.low, value);
    point.high = std::max(point.high, value);
    return;
  }
  points_.push_back({iteration, value, value});
  room_ = each_ - 1;
  if (points_.size() < 2 * kMostPoints) return;
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    const Point &a = points_[2 * i], &b = points_[2 * i + 1];
    points_[i] = {a.iteration, std::min(a.low, b.low), std::max(a.high, b.high)};
  }
  points_.resize(kMostPoints);
  each_ *= 2;  // and room_ is right: the last one, half full, has become half of one
}

void Curves::read(const std::string& path, const Fault& fault, std::int64_t end) {
  const MappedFile file(path, fault);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto value = [&](const char* name) {
      const bool there = json.is_object() && json.contains(name) && json[name].is_number();
      return there ? json[name].get<double>() : std::nan("");
    };
    const double iter = value("iter");
    if (!(iter >= 0 && iter < std::min(static_cast<double>(end), 1e12))) continue;
    const auto iteration = static_cast<std::int64_t>(iter);
    loss.add(iteration, value("loss"));
    val_loss.add(iteration, value("val_loss"));
    grad_norm.add(iteration, value("grad_norm"));
    tokens_per_s.add(iteration, value("tokens_per_s"));
  }
}

Curves read_reference(const std::string& path) {
  Fault fault{.what = "--reference=" + path,
              .expected = "JSON objects with iter and loss, one a line",
              .got = "none"};
  Curves curves;
  curves.read(path, fault);
  if (curves.loss.points().empty()) throw UsageError(fault);
  return curves;
}

std::filesystem::path run_picture_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "run.svg";
}

std::string draw_run(const std::string& title, const Curves& run, const Curves& reference,
                     const Ledger& ledger) {
  const std::int64_t last =
      std::max<std::int64_t>({1, run.val_loss.last(), run.tokens_per_s.last()});
  int y = kGap;
  std::string body = svg_text(kLeft, 18, "start", title);
  const auto panel = [&](const char* name, std::vector<Line> lines, bool from_zero) {
    body += Panel(name, y, last, std::move(lines), from_zero).draw();
    y += kHeight + kGap;
  };
  panel("loss",
        {{run.loss, "training", kOurs, 3},
         {run.val_loss, "validation", kVal, 1.5},
         {reference.loss, "reference", kReference, 1}},
        false);
  panel("gradient norm before clipping",
        {{run.grad_norm, "", kOurs, 3}, {reference.grad_norm, "", kReference, 1}}, true);
  panel("tokens/s", {{run.tokens_per_s, "", kOurs, 2}}, true);
  body += memory(ledger, y);
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" style="max-width:{0}px">)"
      "\n<style>text{{font:12px sans-serif}}"
      "polyline{{fill:none;stroke-linecap:round;stroke-linejoin:round}}</style>\n"
      R"(<rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n{2}</svg>\n",
      kWidth, y + 10, body);
}

}  // namespace nanofsdp::cli
