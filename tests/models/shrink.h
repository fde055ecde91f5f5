#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "models/program.h"

namespace models {

/// @file
/// @brief The smallest program that still fails: whatever can be taken out is taken out, until
/// nothing can.

using Fails = std::function<bool(const Program&)>;

namespace detail {

inline std::vector<Node*> nodes_of(Program& program) {
  std::vector<Node*> nodes;
  each_node(program.model, [&](Node& node) { nodes.push_back(&node); });
  return nodes;
}

/// Ways to make one node smaller.
inline std::vector<std::function<void(Node&)>> node_changes(const Node& node) {
  std::vector<std::function<void(Node&)>> changes;
  const bool is_nothing = node.kind == Kind::identity && node.children.empty();
  if (!is_nothing) changes.push_back([](Node& n) { n = {.unit = n.unit}; });
  if (!is_nothing) changes.push_back([](Node& n) { n = {}; });
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    changes.push_back([i](Node& n) { n = Node(n.children[i]); });
    changes.push_back([i](Node& n) { n.children.erase(n.children.begin() + std::ptrdiff_t(i)); });
  }
  const auto clear = [&](auto member) {
    if (node.*member) changes.push_back([member](Node& n) { n.*member = {}; });
  };
  clear(&Node::unit);
  clear(&Node::recompute);
  clear(&Node::last_first);
  clear(&Node::again);
  clear(&Node::bias);
  clear(&Node::frozen);
  clear(&Node::frozen_bias);
  clear(&Node::half);
  clear(&Node::by_rank);
  if (node.tie != 0) changes.push_back([](Node& n) { n.tie = 0; });
  if (node.times > 1) changes.push_back([](Node& n) { --n.times; });
  for (std::size_t i = 0; i < node.picks.size(); ++i) {
    changes.push_back([i](Node& n) { n.picks.erase(n.picks.begin() + std::ptrdiff_t(i)); });
  }
  const bool simpler = node.kind == Kind::layer_norm || node.kind == Kind::linear;
  if (simpler) changes.push_back([](Node& n) { n.kind = Kind::affine; });
  return changes;
}

/// Ways to make everything but the model smaller: towards what a Program is by itself.
inline std::vector<std::function<void(Program&)>> option_changes(const Program& program) {
  std::vector<std::function<void(Program&)>> changes;
  const Program plain;
  const auto reset = [&](auto member) {
    if (program.*member == plain.*member) return;
    changes.push_back([member, value = plain.*member](Program& p) { p.*member = value; });
  };
  const auto lower = [&](int Program::*member) {
    reset(member);
    if (program.*member > plain.*member) changes.push_back([member](Program& p) { --(p.*member); });
  };
  lower(&Program::steps);
  lower(&Program::micro_steps);
  lower(&Program::ranks);
  lower(&Program::shard_size);
  reset(&Program::post_forward_size);
  lower(&Program::rows);
  lower(&Program::width);
  lower(&Program::forward_prefetch);
  reset(&Program::strategy);
  reset(&Program::param_dtype);
  reset(&Program::layout);
  reset(&Program::reduce_dtype);
  reset(&Program::no_sync);
  reset(&Program::average);
  reset(&Program::backward_prefetch);
  reset(&Program::alignment);
  reset(&Program::pool);
  reset(&Program::poison);
  reset(&Program::late);
  reset(&Program::between);
  reset(&Program::set_to_none);
  reset(&Program::meanwhile);
  reset(&Program::false_start);
  reset(&Program::seed);
  return changes;
}

/// Every program that is one change smaller, those that lose most first.
inline std::vector<Program> smaller(Program program) {
  std::vector<Program> found;
  const std::size_t count = nodes_of(program).size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& change : node_changes(*nodes_of(program)[i])) {
      Program next = program;
      change(*nodes_of(next)[i]);
      found.push_back(std::move(next));
    }
  }
  for (const auto& change : option_changes(program)) {
    change(found.emplace_back(program));
  }
  return found;
}

/// Whether the ranks can form the groups that it wants.
inline bool is_possible(const Program& program) {
  const int group = program.shard_size == 0 ? program.ranks : program.shard_size;
  const bool near = program.post_forward_size == 0 || group % program.post_forward_size == 0;
  return near && program.ranks % group == 0;
}

}  // namespace detail

/// @param fails true of `program`
inline Program shrink(Program program, const Fails& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (Program& next : detail::smaller(program)) {
      if (!detail::is_possible(next) || !fails(next)) continue;
      program = std::move(next);
      smaller = true;
      break;
    }
  }
  return program;
}

}  // namespace models
