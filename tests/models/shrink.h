#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "models/program.h"

namespace models {

/// @file
/// @brief Finds the smallest program that still fails: it removes everything that can be removed,
/// until nothing more can be.

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
  clear(&Node::reshards);
  clear(&Node::dtypes);
  clear(&Node::group);
  clear(&Node::inner_unit);
  clear(&Node::recompute);
  clear(&Node::last_first);
  clear(&Node::again);
  clear(&Node::hooks_before);
  clear(&Node::hooks_after);
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

/// Ways to make a list of actions smaller, with the lists inside it.
inline std::vector<std::vector<Action>> smaller(const std::vector<Action>& actions) {
  std::vector<std::vector<Action>> found;
  const auto change = [&](std::size_t i, const auto& changed) {
    changed(found.emplace_back(actions)[i]);
  };
  for (std::size_t half = actions.size() / 2; half > 1; half /= 2) {
    for (std::size_t i = 0; i + half <= actions.size(); i += half) {
      const auto begin = found.emplace_back(actions).begin() + std::ptrdiff_t(i);
      found.back().erase(begin, begin + std::ptrdiff_t(half));
    }
  }
  for (std::size_t i = 0; i < actions.size(); ++i) {
    found.emplace_back(actions);
    found.back().erase(found.back().begin() + std::ptrdiff_t(i));
  }
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    for (auto& inside : smaller(action.inside)) {
      change(i, [&](Action& a) { a.inside = std::move(inside); });
    }
    if (action.what == Do::step) change(i, [](Action& a) { a.what = Do::clip; });
    if (!action.on) change(i, [](Action& a) { a.on = true; });
    if (action.which != 0) change(i, [](Action& a) { a.which = 0; });
    if (action.which > 0) change(i, [](Action& a) { --a.which; });
  }
  return found;
}

/// Ways to make a world smaller, towards the default World.
inline std::vector<World> smaller(const World& world) {
  std::vector<World> found;
  const World plain;
  const auto reset = [&](auto member) {
    if (world.*member != plain.*member) found.emplace_back(world).*member = plain.*member;
  };
  const auto lower = [&](int World::*member) {
    reset(member);
    if (world.*member > plain.*member) --(found.emplace_back(world).*member);
  };
  lower(&World::ranks);
  lower(&World::shard_size);
  reset(&World::post_forward_size);
  reset(&World::tensor);
  lower(&World::forward_prefetch);
  reset(&World::strategy);
  reset(&World::param_dtype);
  reset(&World::layout);
  reset(&World::reduce_dtype);
  reset(&World::no_sync);
  reset(&World::average);
  reset(&World::backward_prefetch);
  reset(&World::alignment);
  reset(&World::pool);
  reset(&World::poison);
  reset(&World::late);
  reset(&World::traced);
  return found;
}

/// Every program with smaller parts, or with fewer.
inline void shrink_parts(const Program& program, std::vector<Program>& found) {
  for (std::size_t i = 0; i < program.parts.size() && program.parts.size() > 1; ++i) {
    auto& parts = found.emplace_back(program).parts;
    parts.erase(parts.begin() + std::ptrdiff_t(i));
  }
  for (std::size_t i = 0; i < program.parts.size(); ++i) {
    for (auto& actions : smaller(program.parts[i].actions)) {
      found.emplace_back(program).parts[i].actions = std::move(actions);
    }
    for (const World& world : smaller(program.parts[i].world)) {
      found.emplace_back(program).parts[i].world = world;
    }
  }
}

/// Every program that is one change smaller. Those that lose most come first.
inline std::vector<Program> smaller(Program program) {
  std::vector<Program> found;
  shrink_parts(program, found);
  const std::size_t count = nodes_of(program).size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& change : node_changes(*nodes_of(program)[i])) {
      Program next = program;
      change(*nodes_of(next)[i]);
      found.push_back(std::move(next));
    }
  }
  const Program usual;
  if (program.seed != usual.seed) found.emplace_back(program).seed = usual.seed;
  if (program.first != usual.first) found.emplace_back(program).first = usual.first;
  if (program.rows > 1) --found.emplace_back(program).rows;
  if (program.width != usual.width) found.emplace_back(program).width = usual.width;
  if (program.width > usual.width) --found.emplace_back(program).width;
  return found;
}

/// Whether the ranks can form the groups of this world.
inline bool is_possible(const World& world) {
  const int group = world.shard_size == 0 ? world.ranks : world.shard_size;
  const bool near = world.post_forward_size == 0 || group % world.post_forward_size == 0;
  return near && world.ranks % group == 0;
}
inline bool is_possible(const Program& program) {
  return std::ranges::all_of(program.parts,
                             [](const Part& part) { return is_possible(part.world); });
}

}  // namespace detail

/// @param fails is true for `program`
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
