#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nanofsdp::play {

/// @file
/// @brief A run on thousands of simulated GPUs, as JSON.

/// What `nanofsdp plan ARGS --json` says, as "plan"; and as "spans" what one rank does in the step,
/// on the machine that the arguments name.
/// @throws UsageError as the command
nlohmann::json plan_run(const std::vector<std::string>& args);

/// What the command says of time and memory there; where they do not fit, also what would.
/// @throws UsageError as the command
std::string explain_run(const std::vector<std::string>& args);

}  // namespace nanofsdp::play
