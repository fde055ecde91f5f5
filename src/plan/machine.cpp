#include "plan/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "base/check.h"
#include "base/file.h"
#include "plan/embedded.h"

namespace nanofsdp::plan {
namespace {

struct BuiltIn {
  std::string_view name;
  const std::string_view& text;
};
const BuiltIn kBuiltIn[] = {
    {"a100-80", kA100}, {"h100", kH100}, {"h100-96", kH10096}, {"h200", kH200}};
constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr std::string_view kBlank = " \t\r";
constexpr std::string_view kHeading = "[fitted]";
constexpr double kMany = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::min();

struct Number {
  std::string_view name;
  double Machine::*value;
  double least, most;
  bool fitted = false;
};
constexpr Number kNumbers[] = {
    {"memory", &Machine::memory, 1, kMany},
    {"memory_bandwidth", &Machine::memory_bandwidth, kTiny, kMany},
    {"cores", &Machine::cores, 1, kMany},
    {"products_bfloat16", &Machine::products_bfloat16, kTiny, kMany},
    {"products_float32", &Machine::products_float32, kTiny, kMany},
    {"product_half_width", &Machine::product_half_width, 0, kMany},
    {"attention", &Machine::attention, kTiny, kMany},
    {"flops", &Machine::flops, kTiny, kMany},
    {"kernel_time", &Machine::kernel_time, 0, kMany},
    {"launch_time", &Machine::launch_time, 0, kMany},
    {"node_ranks", &Machine::node_ranks, 1, kMany},
    {"node_bandwidth", &Machine::node_bandwidth, kTiny, kMany},
    {"node_latency", &Machine::node_latency, 0, kMany},
    {"network_bandwidth", &Machine::network_bandwidth, kTiny, kMany},
    {"network_latency", &Machine::network_latency, 0, kMany},
    {"network_oversubscription", &Machine::network_oversubscription, 1, kMany},
    {"product_efficiency", &Machine::product_efficiency, kTiny, 1, true},
    {"memory_efficiency", &Machine::memory_efficiency, kTiny, 1, true},
    {"network_efficiency", &Machine::network_efficiency, kTiny, 1, true},
    {"overlap_slowdown", &Machine::overlap_slowdown, 1, kMany, true},
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string_view got) {
  throw UsageError({.what = "machine file, " + where,
                    .expected = std::move(expected),
                    .got = fmt::format("'{}'", got),
                    .hint = "data/machines/h100.txt shows how it is written"});
}

std::string range_of(const Number& n) {
  const std::string least = n.least == kTiny ? "above 0" : fmt::format("at least {}", n.least);
  return fmt::format("{} = a number {}{}", n.name, least,
                     n.most == kMany ? "" : fmt::format(" and at most {}", n.most));
}

// Reads one text, line by line.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void line(std::string_view text) {
    where_ = fmt::format("{}:{}", path_, ++line_);
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) return;
    if (text.starts_with(kHeading)) return heading(text);
    const std::size_t sign = text.find('=');
    if (sign == text.npos) refuse(where_, "name = value", text);
    set(trimmed(text.substr(0, sign)), trimmed(text.substr(sign + 1)));
  }

  Machine end() {
    require("kind");
    for (const Number& n : kNumbers) require(n.name);
    return machine_;
  }

 private:
  void heading(std::string_view text) {
    machine_.fitted_to = trimmed(text.substr(kHeading.size()));
    if (machine_.fitted_to.empty()) refuse(where_, "[fitted] to what", text);
  }

  void set(std::string_view name, std::string_view value) {
    const auto known = std::ranges::find(kNumbers, name, &Number::name);
    if (known == std::end(kNumbers) && name != "kind") refuse(where_, "a name of Machine", name);
    if (!seen_.emplace(name).second) refuse(where_, fmt::format("{} only once", name), name);
    if (name == "kind") return set_kind(value);
    if (known->fitted != !machine_.fitted_to.empty()) {
      refuse(where_,
             fmt::format("{} {} the line [fitted]", name, known->fitted ? "below" : "above"), name);
    }
    machine_.*known->value = number(*known, value);
  }

  void set_kind(std::string_view value) {
    if (value != "gpu" && value != "cpu") refuse(where_, "kind = gpu or cpu", value);
    machine_.kind = value == "gpu" ? Machine::Kind::gpu : Machine::Kind::cpu;
  }

  double number(const Number& n, std::string_view text) const {
    const std::string digits(text);
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    const bool whole = !digits.empty() && end == digits.c_str() + digits.size();
    if (!whole || !(value >= n.least && value <= n.most)) refuse(where_, range_of(n), text);
    return value;
  }

  void require(std::string_view name) const {
    if (!seen_.contains(name)) refuse(path_, fmt::format("a line {} = ...", name), "none");
  }

  std::string path_, where_;
  int line_ = 0;
  std::set<std::string, std::less<>> seen_;
  Machine machine_;
};

}  // namespace

Machine parse_machine(std::string_view text, const std::string& path) {
  Reader reader(path);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) reader.line(line);
  return reader.end();
}

Machine find_machine(const std::string& name_or_path) {
  std::string names;
  for (const BuiltIn& machine : kBuiltIn) {
    if (name_or_path == machine.name) return parse_machine(machine.text, name_or_path);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", machine.name);
  }
  return parse_machine(read_file(name_or_path,
                                 {.what = "machine '" + name_or_path + "'",
                                  .expected = "a text file, or one that is built in: " + names},
                                 kMostBytes),
                       name_or_path);
}

}  // namespace nanofsdp::plan
