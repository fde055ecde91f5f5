#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "models/training.h"
#include "support/layouts.h"

namespace models {

/// @file
/// @brief Prints a program as C++ for a test. Members that have their default values are left out.

namespace detail {

/// Prints the members that differ from their defaults, as a designated initialiser.
class Initializer {
 public:
  explicit Initializer(std::string separator) : separator_(std::move(separator)) {}

  template <class T>
  void add(std::string_view name, const T& value, const T& usual, const std::string& code) {
    if (value == usual) return;
    text_ += fmt::format("{}.{} = {}", text_.empty() ? "" : separator_, name, code);
  }
  void add(std::string_view name, int value, int usual) {
    add(name, value, usual, std::to_string(value));
  }
  void add(std::string_view name, bool value, bool usual) {
    add(name, value, usual, value ? "true" : "false");
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string separator_;
  std::string text_;
};

inline constexpr std::array<std::string_view, 16> kKinds = {
    "identity", "gelu",       "dropout",  "linear",   "layer_norm", "affine", "shift",  "unused",
    "silent",   "sequential", "residual", "parallel", "detached",   "repeat", "choose", "cross"};
inline constexpr std::array<std::string_view, 6> kFirst = {"given",  "drawn", "broadcast",
                                                           "shapes", "mixed", "partial"};
inline constexpr std::array<std::string_view, 3> kPrefetch = {"none", "pre", "post"};

inline std::string code_of(const Node& node, int indent) {
  const Node usual;
  Initializer code(", ");
  code.add("kind", node.kind, usual.kind,
           fmt::format("Kind::{}", kKinds[static_cast<std::size_t>(node.kind)]));
  code.add("unit", node.unit, false);
  code.add("reshards", node.reshards, 0);
  code.add("dtypes", node.dtypes, 0);
  code.add("group", node.group, 0);
  code.add("inner_unit", node.inner_unit, false);
  code.add("recompute", node.recompute, false);
  code.add("last_first", node.last_first, false);
  code.add("again", node.again, false);
  code.add("hooks_before", node.hooks_before, false);
  code.add("hooks_after", node.hooks_after, false);
  code.add("bias", node.bias, false);
  code.add("frozen", node.frozen, false);
  code.add("frozen_bias", node.frozen_bias, false);
  code.add("half", node.half, false);
  code.add("tie", node.tie, 0);
  code.add("times", node.times, 1);
  code.add("picks", node.picks, usual.picks, fmt::format("{{{}}}", fmt::join(node.picks, ", ")));
  code.add("by_rank", node.by_rank, false);
  std::string children;
  for (const Node& child : node.children) {
    children += fmt::format("{}\n{:{}}{}", children.empty() ? "" : ",", "", indent + 2,
                            code_of(child, indent + 2));
  }
  code.add("children", children, std::string(), "{" + children + "}");
  return code.text();
}

inline std::string code_of(const std::vector<Action>& actions, int indent) {
  std::string code;
  for (const Action& action : actions) {
    Initializer one(", ");
    one.add("what", std::string("?"), std::string(), fmt::format("Do::{}", name_of(action.what)));
    one.add("on", action.on, true);
    one.add("which", action.which, 0);
    if (!action.inside.empty()) {
      one.add("inside", 1, 0, code_of(action.inside, indent + 2));
    }
    code += fmt::format("{}\n{:{}}{}", code.empty() ? "" : ",", "", indent, one.text());
  }
  return "{" + code + "}";
}

inline std::string code_of(const World& s) {
  const World usual;
  const auto dtype = [](DType x) { return fmt::format("DType::{}", nanofsdp::name_of(x)); };
  Initializer code(",\n   ");
  code.add("ranks", s.ranks, usual.ranks);
  code.add("shard_size", s.shard_size, usual.shard_size);
  code.add("post_forward_size", s.post_forward_size, usual.post_forward_size);
  code.add("tensor", s.tensor, usual.tensor);
  code.add("strategy", s.strategy, usual.strategy,
           "ShardingStrategy::" + nanofsdp::fsdp::name_of(s.strategy));
  code.add("layout", s.layout, usual.layout,
           "fsdp::LayoutKind::" + nanofsdp::testing::name_of(s.layout));
  code.add("param_dtype", s.param_dtype, usual.param_dtype, dtype(s.param_dtype));
  code.add("reduce_dtype", s.reduce_dtype, usual.reduce_dtype, dtype(s.reduce_dtype));
  code.add("no_sync", s.no_sync, usual.no_sync);
  code.add("average", s.average, usual.average);
  code.add("forward_prefetch", s.forward_prefetch, usual.forward_prefetch);
  code.add("backward_prefetch", s.backward_prefetch, usual.backward_prefetch,
           fmt::format("fsdp::BackwardPrefetch::{}",
                       kPrefetch[static_cast<std::size_t>(s.backward_prefetch)]));
  code.add("alignment", s.alignment, usual.alignment);
  code.add("pool", s.pool, usual.pool);
  code.add("poison", s.poison, usual.poison);
  code.add("late", s.late, usual.late);
  code.add("traced", s.traced, usual.traced);
  return code.text();
}

}  // namespace detail

inline std::string code_of(const Program& p) {
  const Program usual;
  detail::Initializer code(",\n ");
  code.add("seed", static_cast<int>(p.seed), static_cast<int>(usual.seed));
  code.add("width", p.width, usual.width);
  code.add("rows", p.rows, usual.rows);
  code.add("first", p.first, usual.first,
           fmt::format("First::{}", detail::kFirst[static_cast<std::size_t>(p.first)]));
  std::string parts;
  for (const Part& part : p.parts) {
    detail::Initializer one(",\n   ");
    if (part.world != World()) one.add("world", 1, 0, detail::code_of(part.world));
    if (!part.actions.empty()) one.add("actions", 1, 0, detail::code_of(part.actions, 4));
    parts += (parts.empty() ? "" : ",\n  ") + one.text();
  }
  if (p.parts != usual.parts) code.add("parts", 1, 0, "{" + parts + "}");
  code.add("model", std::string("?"), std::string(), detail::code_of(p.model, 1));
  return "const Program program" + code.text() + ";\n";
}

}  // namespace models
