#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "comm/mesh.h"
#include "models/program.h"
#include "support/closed_formula.h"

namespace models {

/// @file
/// @brief What the ranks of a program send in a step, where the closed formula knows it.

/// The program without what makes one step send more than another: now each pass enters every unit
/// once, forward and backward, and no guess of what comes next is wrong.
inline Program plain(Program p) {
  const bool takes_away = p.no_sync;  // what a pass has kept for the next
  if (p.between == Between::given_up || takes_away) p.between = Between::nothing;
  p.meanwhile = p.false_start = false;
  p.steps = std::max(p.steps, 2);
  each_node(p.model, [](Node& node) {
    const bool varies =
        node.kind == Kind::choose || node.kind == Kind::detached || node.kind == Kind::repeat;
    if (varies) node.kind = Kind::sequential;
    node.again = false;
    node.recompute = node.recompute && node.children.empty();
  });
  return p;
}

/// @throws std::runtime_error unless a step after the first sent what was planned
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
