#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nanofsdp::play {

/// @file
/// @brief A run on thousands of simulated GPUs, as JSON.

/// Returns the result of `nanofsdp plan ARGS --json` as "plan", and as "spans" the work of one rank
/// in the step, on the machine that the arguments name.
/// @throws UsageError as the command
nlohmann::json plan_run(const std::vector<std::string>& args);

/// What the command says would fit, for a plan that does not.
/// @throws UsageError as the command
std::string explain_run(const std::vector<std::string>& args);

}  // namespace nanofsdp::play
