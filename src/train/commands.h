#pragma once

#include <string>
#include <vector>

namespace nanofsdp::train {

/// @file
/// @brief The subcommands: from arguments to an exit code.

/// `nanofsdp train`: starts the ranks, trains, prints a sample. @returns the exit code
int train_command(const std::vector<std::string>& args);

/// `nanofsdp sample`: prints what a saved model writes. @returns the exit code
int sample_command(const std::vector<std::string>& args);

}  // namespace nanofsdp::train
