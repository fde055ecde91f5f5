#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>

#include "models/program.h"

namespace models {

/// @file
/// @brief A program as C++ to be pasted into a test. What a Program is by itself is left out.

namespace detail {

/// The members that differ from their defaults, as a designated initialiser.
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

inline constexpr std::array<std::string_view, 13> kKinds = {
    "identity",   "gelu",     "linear",   "layer_norm", "affine", "unused", "silent",
    "sequential", "residual", "parallel", "detached",   "repeat", "choose"};
inline constexpr std::array<std::string_view, 4> kBetween = {"nothing", "evaluation", "given_up",
                                                             "summon"};
inline constexpr std::array<std::string_view, 3> kPrefetch = {"none", "pre", "post"};

inline std::string code_of(const Node& node, int indent) {
  const Node usual;
  Initializer code(", ");
  code.add("kind", node.kind, usual.kind,
           fmt::format("Kind::{}", kKinds[static_cast<std::size_t>(node.kind)]));
  code.add("unit", node.unit, false);
  code.add("recompute", node.recompute, false);
  code.add("last_first", node.last_first, false);
  code.add("again", node.again, false);
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

}  // namespace detail

inline std::string code_of(const Program& p) {
  using nanofsdp::DType;
  const Program usual;
  const auto dtype = [](DType x) {
    return std::string(x == DType::bfloat16 ? "DType::bfloat16" : "DType::float32");
  };
  detail::Initializer code(",\n ");
  code.add("seed", static_cast<int>(p.seed), static_cast<int>(usual.seed));
  code.add("width", p.width, usual.width);
  code.add("rows", p.rows, usual.rows);
  code.add("ranks", p.ranks, usual.ranks);
  code.add("shard_size", p.shard_size, usual.shard_size);
  code.add("post_forward_size", p.post_forward_size, usual.post_forward_size);
  code.add("strategy", p.strategy, usual.strategy,
           "ShardingStrategy::" + nanofsdp::fsdp::name_of(p.strategy));
  code.add("layout", p.layout, usual.layout, "nanofsdp::fsdp::LayoutKind::per_parameter");
  code.add("param_dtype", p.param_dtype, usual.param_dtype, dtype(p.param_dtype));
  code.add("reduce_dtype", p.reduce_dtype, usual.reduce_dtype, dtype(p.reduce_dtype));
  code.add("no_sync", p.no_sync, usual.no_sync);
  code.add("average", p.average, usual.average);
  code.add("forward_prefetch", p.forward_prefetch, usual.forward_prefetch);
  code.add("backward_prefetch", p.backward_prefetch, usual.backward_prefetch,
           fmt::format("BackwardPrefetch::{}",
                       detail::kPrefetch[static_cast<std::size_t>(p.backward_prefetch)]));
  code.add("alignment", p.alignment, usual.alignment);
  code.add("pool", p.pool, usual.pool);
  code.add("poison", p.poison, usual.poison);
  code.add("late", p.late, usual.late);
  code.add("steps", p.steps, usual.steps);
  code.add("micro_steps", p.micro_steps, usual.micro_steps);
  code.add("between", p.between, usual.between,
           fmt::format("Between::{}", detail::kBetween[static_cast<std::size_t>(p.between)]));
  code.add("set_to_none", p.set_to_none, usual.set_to_none);
  code.add("meanwhile", p.meanwhile, usual.meanwhile);
  code.add("false_start", p.false_start, usual.false_start);
  code.add("model", std::string("?"), std::string(), detail::code_of(p.model, 1));
  return "const Program program" + code.text() + ";\n";
}

}  // namespace models
