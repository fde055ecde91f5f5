#pragma once

#include <string>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief The room `cli`: what a person types, and what a person sees. The subcommands, each from
/// arguments to an exit code.
///
/// Comes in: arguments and config files (options.h), which become the options of the rooms below.
/// Goes out: summary, progress and tables (report.h), the metrics file, pictures, errors.

/// `nanofsdp train`: starts the ranks, trains, prints a sample. @returns the exit code
int train_command(const std::vector<std::string>& args);

/// `nanofsdp eval`: starts the ranks, prints the losses of a saved model. @returns the exit code
int eval_command(const std::vector<std::string>& args);

/// `nanofsdp sample`: starts the ranks, prints what a saved model writes. @returns the exit code
int sample_command(const std::vector<std::string>& args);

/// `nanofsdp export`: starts the ranks, each writes its part of a model. @returns the exit code
int export_command(const std::vector<std::string>& args);

/// `nanofsdp compare`: the same training under ZeRO-0 to 3, with what each holds and moves.
/// @returns the exit code: 0 if losses and weights are equal to the bit in all
int compare_command(const std::vector<std::string>& args);

/// `nanofsdp plan`: what a rank will hold and move, from shapes alone. @returns 0
int plan_command(const std::vector<std::string>& args);

/// `nanofsdp bench`: the speed of operators, collectives and whole steps on this computer.
/// @returns 0
int bench_command(const std::vector<std::string>& args);

}  // namespace nanofsdp::cli
