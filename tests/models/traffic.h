#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "comm/mesh.h"
#include "models/program.h"

namespace models {

/// @file
/// @brief The traffic of a program's ranks in a step, if the closed formula knows it.

/// The passes of the first step in the part.
inline int micro_steps_of(const Part& part) {
  const auto is_step = [](const Action& action) { return action.what == Do::step; };
  const auto step = std::ranges::find_if(part.actions, is_step);
  const auto is_pass = [](const Action& action) { return action.what == Do::pass; };
  return std::max(1, static_cast<int>(std::count_if(part.actions.begin(), step, is_pass)));
}

/// The program without everything that makes one step send more than another. Then each pass enters
/// every unit once, forward and backward, and no prefetch is wrong.
inline Program plain(Program p) {
  for (Part& part : p.parts) {
    const bool to_none = part.actions.empty() || part.actions.front().on;
    part.actions = training(2, micro_steps_of(part), to_none);
  }
  each_node(p.model, [](Node& node) {
    const bool varies =
        node.kind == Kind::choose || node.kind == Kind::detached || node.kind == Kind::repeat;
    if (varies) node.kind = Kind::sequential;
    node.again = false;
    node.last_first = false;  // the order in which a group's modules are declared is that of use
    node.recompute = node.recompute && node.children.empty();
  });
  return p;
}

/// @throws std::runtime_error unless a step after the first has sent the planned bytes
inline void require_traffic(nanofsdp::comm::Traffic step, const nanofsdp::comm::Traffic& planned) {
  step.control = 0;  // counted apart
  if (step == planned) return;
  const auto shown = [](const nanofsdp::comm::Traffic& t) {
    return fmt::format("{} all-gathers, {} reduce-scatters, {} all-reduces, {} bytes",
                       t.all_gathers, t.reduce_scatters, t.all_reduces, t.bytes_sent);
  };
  throw std::runtime_error(fmt::format("a step: planned {}, got {}", shown(planned), shown(step)));
}

}  // namespace models
