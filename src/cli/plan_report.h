#pragma once

#include <string>

#include "cli/plan_options.h"
#include "plan/plan.h"

namespace nanofsdp::cli {

/// @file
/// @brief Prints a plan, for people and for programs.

/// Bytes in GiB.
inline double gib(double bytes) { return bytes / (1 << 30); }

/// Makes the plan that the options ask for, for rank 0. No rank has more rows.
/// @param timed whether it has times, if the options name a machine
plan::Plan plan_of(const PlanOptions& options, bool timed = true);

/// A plan as one JSON object: what was "planned"; memory and traffic of a rank. On a machine it has
/// these, too: "seconds" of a step if no rank is late; "straggler_seconds" in which it waits for
/// late ranks, 4 % for each doubling of GPUs beyond 128; "tokens_per_s" of a rank; "mfu", model
/// FLOPs utilisation from 0 to 1, in which recomputation does not count, and "hfu", in which it
/// does (both count the half of attention's pairs that a causal model needs);
/// "communication_seconds" in which at least one collective was running; "exposed_seconds" in which
/// computation waited for collectives; "memory_bytes" that a rank has there; "reserve_bytes" of
/// them that are held back; and whether the plan "fits": whether the others hold "peak_bytes", the
/// most at any moment of the run. A bare number of parameters has no tokens and no utilisation.
nlohmann::ordered_json json_of(const PlanOptions& options, const plan::Plan& plan);

/// json_of() the plan with these words behind the options, which are "typed", or the reason for
/// which it is "refused".
/// @param words see typed_behind()
nlohmann::ordered_json row_of(const PlanOptions& options, const std::string& words,
                              bool timed = true);

/// If --fit is given, the words with --unsharded_blocks behind them: the largest number of blocks
/// for which their plan fits, or 0 if a step is less than 1 % faster so. Otherwise the words.
std::string fitted(const PlanOptions& options, const std::string& words);

/// Changes that make a plan fit, the fastest first, by the tokens/s of a rank; six at most. Each is
/// made of options that can be typed behind the others, and was planned so. If no single change of
/// FSDP's options is enough, pairs are tried, and then all together. If FSDP alone is not enough,
/// the text says what takes the memory, and which tensor parallelism or what else helps.
std::string what_would_fit(const PlanOptions& options);

}  // namespace nanofsdp::cli
