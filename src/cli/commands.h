#pragma once

#include <string>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief The room `cli`: the program that people use. Each subcommand turns arguments into an exit
/// code.
///
/// Comes in: arguments and config files (options.h), which become the options of other rooms.
/// Goes out: summary, progress and tables (report.h), the metrics file, pictures, and errors.

/// `nanofsdp train`: starts the ranks, trains, and prints a sample. @returns the exit code
int train_command(const std::vector<std::string>& args);

/// `nanofsdp eval`: starts the ranks and prints the losses of a saved model. @returns the exit code
int eval_command(const std::vector<std::string>& args);

/// `nanofsdp sample`: starts the ranks and prints text of a saved model. @returns the exit code
int sample_command(const std::vector<std::string>& args);

/// `nanofsdp export`: starts the ranks; each writes its part of a model. @returns the exit code
int export_command(const std::vector<std::string>& args);

/// `nanofsdp compare`: makes the same training under ZeRO-0 to 3, and prints the memory and traffic
/// of each.
/// @returns the exit code: 0 if losses and weights are equal to the bit in all
int compare_command(const std::vector<std::string>& args);

/// `nanofsdp plan`: prints the memory and traffic of a rank, from shapes alone. @returns 0
int plan_command(const std::vector<std::string>& args);

/// `nanofsdp bench`: measures operators, collectives and whole steps on this computer.
/// @returns 0
int bench_command(const std::vector<std::string>& args);

}  // namespace nanofsdp::cli
