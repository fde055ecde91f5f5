#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/ledger.h"
#include "comm/traffic.h"
#include "fsdp/fully_shard.h"
#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief --explain: what a run will hold and move, in words; and, after it, what it did.

/// "4 x 196,864 + root 16,640": the parameters of each unit; equal ones are told once.
std::string unit_sizes(std::span<const std::int64_t> units);

/// Units and how each lies over the ranks of its group; equal ones are told once.
std::string explain_layouts(std::span<const fsdp::Unit> units);

/// Memory by class and traffic of a step: planned, and beside it what was measured, if anything.
/// @param ledger, step of one rank; both are null before the run
std::string explain_plan(const plan::Plan& plan, std::int64_t numel, const Ledger* ledger,
                         const comm::Traffic* step);

}  // namespace nanofsdp::cli
