#include "plan/machine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/file.h"

namespace nanofsdp {

// The names and texts of data/machines/*.txt, which src/cmake/embed.cmake puts into the binary.
extern const std::span<const std::pair<std::string_view, std::string_view>> kMachines;

namespace plan {
namespace {

constexpr std::string_view kHeading = "[fitted]";
constexpr double kMany = 1e24;  // a time or a number of bytes stays finite

// A number of a machine's file. A value outside the limits is probably in other units, such as
// gigabytes or microseconds.
struct Number {
  std::string_view name;
  double Machine::*value;
  double least = 1e6, most = kMany;
  bool fitted = false;
};
constexpr Number kNumbers[] = {
    {"memory", &Machine::memory},
    {"memory_bandwidth", &Machine::memory_bandwidth},
    {"cores", &Machine::cores, 1, 1e6},
    {"products_bfloat16", &Machine::products_bfloat16},
    {"products_float32", &Machine::products_float32},
    {"product_half_width", &Machine::product_half_width, 0},
    {"attention", &Machine::attention},
    {"attention_half_length", &Machine::attention_half_length, 0},
    {"flops", &Machine::flops},
    {"kernel_time", &Machine::kernel_time, 0, 1},
    {"launch_time", &Machine::launch_time, 0, 1},
    {"node_ranks", &Machine::node_ranks, 1, 1e6},
    {"node_bandwidth", &Machine::node_bandwidth},
    {"node_latency", &Machine::node_latency, 0, 1},
    {"network_bandwidth", &Machine::network_bandwidth},
    {"network_latency", &Machine::network_latency, 0, 1},
    {"network_oversubscription", &Machine::network_oversubscription, 1},
    {"product_efficiency", &Machine::product_efficiency, 0.01, 1, true},
    {"memory_efficiency", &Machine::memory_efficiency, 0.01, 1, true},
    {"network_efficiency", &Machine::network_efficiency, 0.01, 1, true},
    {"overlap_slowdown", &Machine::overlap_slowdown, 1, kMany, true},
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t\r"), text.size());
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

void check(bool right, const std::string& where, std::string expected, std::string_view got) {
  if (right) return;
  NANOFSDP_REFUSE(.what = "machine file, " + where, .expected = std::move(expected),
                  .got = fmt::format("'{}'", got),
                  .hint = "data/machines/h100.txt shows how it is written, in which units");
}

void set(Machine& machine, const std::string& where, std::string_view name,
         const std::string& value) {
  if (name == "kind") {
    check(value == "gpu" || value == "cpu", where, "kind = gpu or cpu", value);
    machine.kind = value == "gpu" ? Machine::Kind::gpu : Machine::Kind::cpu;
    return;
  }
  const std::string_view base = name.substr(0, name.find(':'));
  const Number* n = std::ranges::find(kNumbers, base, &Number::name);
  check(n != std::end(kNumbers) && (base == name || base == "attention"), where,
        "a name of Machine", name);
  check(n->fitted != machine.fitted_to.empty(), where,
        fmt::format("{} {} the line [fitted]", name, n->fitted ? "below" : "above"), name);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const bool whole = !value.empty() && end == value.c_str() + value.size();
  check(whole && number >= n->least && number <= n->most, where,
        fmt::format("{} = a number at least {} and at most {}", name, n->least, n->most), value);
  if (base == name) machine.*n->value = number;
  if (base != name) machine.attentions[std::string(name.substr(base.size() + 1))] = number;
}

}  // namespace

Machine parse_machine(std::string_view text, const std::string& path) {
  Machine machine;
  std::set<std::string, std::less<>> seen;
  for (int number = 1; !text.empty(); ++number) {
    const std::string where = fmt::format("{}:{}", path, number);
    const std::string_view all = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(all.size() + 1, text.size()));
    const std::string_view line = trimmed(all.substr(0, all.find('#')));
    const std::size_t sign = line.find('=');
    if (line.starts_with(kHeading)) {
      machine.fitted_to = trimmed(line.substr(kHeading.size()));
      check(!machine.fitted_to.empty(), where, "[fitted] to what", line);
    } else if (!line.empty()) {
      check(sign != line.npos, where, "name = value", line);
      const std::string_view name = trimmed(line.substr(0, sign));
      check(seen.emplace(name).second, where, fmt::format("{} only once", name), name);
      set(machine, where, name, std::string(trimmed(line.substr(sign + 1))));
    }
  }
  check(seen.contains("kind"), path, "a line kind = ...", "none");
  for (const Number& n : kNumbers)
    check(seen.contains(n.name), path, fmt::format("a line {} = ...", n.name), "none");
  return machine;
}

Machine find_machine(const std::string& name_or_path) {
  std::string names;
  for (const auto& [name, text] : kMachines) {
    if (name_or_path == name) return parse_machine(text, name_or_path);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return parse_machine(read_file(name_or_path,
                                 {.what = "machine '" + name_or_path + "'",
                                  .expected = "a text file, or one that is built in: " + names},
                                 /*most bytes*/ 1 << 20),
                       name_or_path);
}

}  // namespace plan
}  // namespace nanofsdp
