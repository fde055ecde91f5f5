#pragma once

#include <string>

#include "cli/plan_options.h"
#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief What a plan says, to people and to programs.

/// The plan that the options ask for, of the rank that has most rows.
plan::Plan plan_of(const PlanOptions& options);

/// What follows for the machine.
struct Verdict {
  double seconds = 0;        ///< of a step
  double tokens_per_s = 0;   ///< of a rank
  double mfu = 0;            ///< model FLOPs utilisation, 0 to 1: recomputation does not count
  double communication = 0;  ///< seconds in which a collective was under way, of either stream
  double exposed_gathers = 0, exposed_reductions = 0;  ///< computation stood still for these
  double memory = 0;                                   ///< bytes that a rank has there
  bool fits = false;                                   ///< whether the plan's peak is less
};

/// Of a plan with a machine.
Verdict judge(const PlanOptions& options, const plan::Plan& plan);

/// Time of a step, and whether the plan fits, or what would; empty without a machine.
std::string explain_time(const PlanOptions& options, const plan::Plan& plan);

/// The same as one JSON object: nlohmann::json, or nlohmann::ordered_json.
template <class Json>
Json json_of(const PlanOptions& options, const plan::Plan& plan);

}  // namespace nanofsdp::cli
