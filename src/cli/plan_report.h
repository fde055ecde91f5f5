#pragma once

#include <string>

#include "base/json.h"
#include "cli/plan_options.h"
#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief Prints a plan, for people and for programs.

/// Makes the plan that the options ask for, for the rank that has most rows.
plan::Plan plan_of(const PlanOptions& options);

/// A plan as one JSON object: memory and traffic of a rank. On a machine it has these, too:
/// "seconds" of a step; "tokens_per_s" of a rank; "mfu", model FLOPs utilisation from 0 to 1, in
/// which recomputation does not count; "communication_seconds" in which at least one collective was
/// running; "exposed_seconds" in which computation waited for collectives; "memory_bytes" that a
/// rank has there; and whether the plan "fits".
nlohmann::ordered_json json_of(const PlanOptions& options, const plan::Plan& plan);

/// The text about the time of a step, and whether the plan fits, or what would fit. It is empty
/// without a machine.
std::string explain_time(const PlanOptions& options, const plan::Plan& plan);

}  // namespace nanofsdp::cli
