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

// Draws a bar for each class that held memory. `y` moves below the bars.
std::string memory(const Ledger& ledger, double& y) {
  const auto total = static_cast<double>(std::max<std::int64_t>(ledger.total_peak(), 1));
  std::string svg = svg_text(kChartLeft, y - 8, "start",
                             fmt::format("memory of a rank: {} at its peak; each class at its own",
                                         megabytes(ledger.total_peak())));
  for (const MemoryClass c : kMemoryClasses) {
    const std::int64_t bytes = ledger.count(c).reserved_peak;
    if (bytes == 0) continue;
    const double left = kChartLeft + 158, width = 400 * static_cast<double>(bytes) / total;
    svg += svg_text(left - 8, y + 14, "end", std::string(name_of(c))) +
           fmt::format(R"(<rect x="{}" y="{}" width="{:.1f}" height="14" fill="{}"/>)", left, y + 3,
                       width, kHeld[static_cast<std::size_t>(c)]) +
           svg_text(left + width + 8, y + 14, "start", grouped(bytes) + " bytes");
    y += 20;
  }
  return svg;
}

}  // namespace

void Curve::add(std::int64_t iteration, double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded) || iteration <= last_) return;
  last_ = iteration;
  values_.emplace_back(static_cast<float>(iteration), rounded);
}

std::vector<Chart::Point> Curve::points(std::int64_t last) const {
  const std::size_t each = (values_.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Chart::Point> points;
  for (std::size_t i = 0; i < values_.size() && values_[i].first <= static_cast<float>(last); ++i) {
    const auto [iteration, value] = values_[i];
    if (i % each == 0) points.push_back({iteration, value, value});
    points.back().low = std::min<double>(points.back().low, value);
    points.back().high = std::max<double>(points.back().high, value);
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
  const std::int64_t last =
      std::max<std::int64_t>({1, run.val_loss.last(), run.tokens_per_s.last()});
  double y = 56;
  std::string body = svg_text(kChartLeft, 18, "start", title);
  const auto chart = [&](const char* name, bool from_zero, std::vector<Chart::Line> lines) {
    body += draw_chart({name, from_zero, "iteration", static_cast<double>(last), lines}, y, 150);
    y += 150 + 56;
  };
  chart("loss", false,
        {{"training", kOurs, 3, run.loss.points(last)},
         {"validation", kVal, 1.5, run.val_loss.points(last)},
         {"reference", kReference, 1, reference.loss.points(last)}});
  chart("gradient norm before clipping", true,
        {{"", kOurs, 3, run.grad_norm.points(last)},
         {"", kReference, 1, reference.grad_norm.points(last)}});
  chart("tokens/s", true, {{"", kOurs, 2, run.tokens_per_s.points(last)}});
  body += memory(ledger, y);
  return svg_page(y + 10, body);
}

}  // namespace nanofsdp::cli
