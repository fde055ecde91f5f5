#pragma once

#include <string>

#include "cli/plan_options.h"
#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief Prints a plan, for people and for programs.

/// Makes the plan that the options ask for, for the rank that has most rows.
plan::Plan plan_of(const PlanOptions& options);

/// The consequences of a plan on a machine.
struct Verdict {
  double seconds = 0;        ///< seconds of a step
  double tokens_per_s = 0;   ///< tokens/s of a rank
  double mfu = 0;            ///< model FLOPs utilisation, 0 to 1: recomputation does not count
  double communication = 0;  ///< seconds in which at least one collective was running
  /// Seconds in which computation waited for these.
  double exposed_gathers = 0, exposed_reductions = 0;
  double memory = 0;  ///< bytes of memory that a rank has on the machine
  bool fits = false;  ///< whether the plan's peak is smaller
};

/// Computes the consequences. @pre the plan has a machine
Verdict judge(const PlanOptions& options, const plan::Plan& plan);

/// The text about the time of a step, and whether the plan fits, or what would fit. It is empty
/// without a machine.
std::string explain_time(const PlanOptions& options, const plan::Plan& plan);

/// The plan as one JSON object: nlohmann::json, or nlohmann::ordered_json.
template <class Json>
Json json_of(const PlanOptions& options, const plan::Plan& plan);

}  // namespace nanofsdp::cli
