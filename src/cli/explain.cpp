#include "cli/explain.h"

#include <fmt/format.h>

#include "bench/numbers.h"

namespace nanofsdp::cli {
namespace {

// The part of a unit that a rank owns: "ln_1.weight, attn.c_attn.weight[0:24480], padding 3". The
// name of the unit is left out of the parameters' names.
std::string owned(const std::string& unit, const fsdp::Layout& layout, int rank) {
  std::string text;
  std::int64_t padding = layout.shard_numel();
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const fsdp::Range piece = layout.piece(i, rank).in_parameter;
    if (piece.empty()) continue;
    padding -= piece.size();
    const fsdp::ParameterSpec& p = layout.parameters()[i];
    const std::string name =
        p.name.starts_with(unit + ".") ? p.name.substr(unit.size() + 1) : p.name;
    add(piece.size() == p.numel() ? name : fmt::format("{}[{}:{}]", name, piece.begin, piece.end));
  }
  if (padding > 0) add("padding " + grouped(padding));
  return text;
}

}  // namespace

std::string unit_sizes(std::span<const std::int64_t> units) {
  std::string text;
  while (units.size() > 1) {  // the root is the last unit
    const std::int64_t numel = units[0];
    std::size_t n = 1;
    while (n + 1 < units.size() && units[n] == numel) ++n;
    text += (n > 1 ? fmt::format("{} x ", n) : "") + grouped(numel) + " + ";
    units = units.subspan(n);
  }
  return text + "root " + grouped(units[0]);
}

std::string explain_layouts(std::span<const fsdp::Unit> units) {
  std::string text, before, last;
  for (const fsdp::Unit& unit : units) {
    for (const fsdp::ShardedParameters& row : unit.rows()) {
      const fsdp::Layout& layout = row.layout();
      const bool frozen = !row.trains() && !row.parameters().empty();
      const std::string name = unit.name() + (frozen ? ", frozen" : "");
      const int stored = row.stored_shards(), group = layout.world_size() / stored;
      std::string shards =
          fmt::format("{} elements in shards of {}\n", grouped(layout.total_numel()),
                      grouped(layout.shard_numel()));
      for (int owner = 0; owner < layout.world_size(); ++owner)
        shards += fmt::format("    rank {}: {}\n", owner % stored * group + owner / stored,
                              owned(unit.name(), layout, owner));
      text += "  " + name + ": " + (shards == last ? "as " + before + "\n" : shards);
      last = shards;
      before = name;
    }
  }
  return text;
}

std::string explain_plan(const plan::Plan& plan, const Ledger& held, const comm::Traffic& moved) {
  std::string text;
  const auto line = [&](std::string_view name, std::string_view planned,
                        std::string_view measured) {
    text += fmt::format("{:<24}{:>16}", name, planned) +
            (held.total_peak() == 0 ? "\n" : fmt::format("{:>16}\n", measured));
  };
  const auto row = [&](std::string_view name, std::int64_t planned, std::int64_t measured) {
    line(fmt::format("  {}", name), grouped(planned), grouped(measured));
  };
  line("memory of a rank, bytes", "planned", "measured");
  for (const MemoryClass c : kMemoryClasses) {
    const std::int64_t bytes = held.count(c).reserved_peak;
    if (plan.of(c) > 0 || bytes > 0) row(name_of(c), plan.of(c), bytes);
  }
  row("in all", plan.total_peak, held.total_peak());
  const std::int64_t at_rest =
      plan.of(MemoryClass::parameter_shards) + plan.of(MemoryClass::gradient_shards) +
      plan.of(MemoryClass::optimizer) +
      plan.memory[static_cast<std::size_t>(MemoryClass::unsharded_parameters)].in_use;
  text +=
      fmt::format("  between steps {:.2f} bytes a parameter: parameters, gradients, optimizer\n",
                  static_cast<double>(at_rest) / static_cast<double>(plan.numel()));
  line("traffic of a step", "planned", "measured");
  row("all-gathers", plan.step.all_gathers, moved.all_gathers);
  row("reduce-scatters", plan.step.reduce_scatters, moved.reduce_scatters);
  row("all-reduces", plan.step.all_reduces, moved.all_reduces);
  row("bytes sent", plan.step.bytes_sent, moved.bytes_sent);
  row("bytes received", plan.step.bytes_received, moved.bytes_received);
  return text;
}

}  // namespace nanofsdp::cli
