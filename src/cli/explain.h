#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief The text of --explain: the planned memory and traffic of a run; and after the run, beside
/// it, what was measured.

/// The numbers of parameters of the units, with equal ones together: "4 x 196,864 + root 16,640".
std::string unit_sizes(std::span<const std::int64_t> units);

/// Each unit's layout over the ranks of its group. Units with equal layouts are written once.
std::string explain_layouts(std::span<const fsdp::Unit> units);

/// Memory by class and traffic of a step: as planned, and beside it as measured.
/// @param held, moved what a rank has held, and sent in a step. Without them there is no second
///   column
std::string explain_plan(const plan::Plan& plan, const Ledger& held = {},
                         const comm::Traffic& moved = {});

}  // namespace nanofsdp::cli
