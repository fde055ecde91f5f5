#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "comm/run_ranks.h"

namespace nanofsdp::cli {

/// @file
/// @brief The room `cli`: the program that people use. Each subcommand turns arguments into an exit
/// code.
///
/// Comes in: arguments and config files (options.h), which become the options of other rooms.
/// Goes out: summary, progress and tables (report.h), the metrics file, pictures, and errors.

/// `nanofsdp NAME`: turns arguments into options, runs the command, and starts ranks if it needs
/// them.
///
///     train    trains, and prints a sample
///     eval     prints the losses of a saved model
///     sample   prints text of a saved model
///     export   each rank writes its part of a saved model
///     compare, plan, bench: the functions below
///
/// @returns the exit code
/// @throws UsageError if there is no such command, or its arguments are wrong; HelpRequested
///   (options.h)
int run_command(const std::string& name, const std::vector<std::string>& args);

/// `nanofsdp compare`: makes the same training under ZeRO-0 to 3, and prints the memory and traffic
/// of each.
/// @returns the exit code: 0 if losses and weights are equal to the bit in all
int compare_command(const std::vector<std::string>& args);

/// `nanofsdp plan`: prints the memory and traffic of a rank, from shapes alone. @returns 0
int plan_command(const std::vector<std::string>& args);

/// `nanofsdp bench`: measures operators, collectives and whole steps on this computer.
/// @returns 0
int bench_command(const std::vector<std::string>& args);

/// Reads what `nanofsdp sample` needs: the model's description, its tokenizer and the prompt. The
/// body then shards the model over the ranks, and rank 0 prints the notes and the text.
/// @param options outlives the body
/// @throws UsageError if there is no such model, or the prompt is not of its tokens
comm::RankBody prepare_sampling(const SampleOptions& options, int rank);

/// Reads the description of the model for `nanofsdp export`. The body then shards the model over
/// the ranks, and each rank writes its file.
/// @param options outlives the body
/// @throws UsageError if there is no such model
comm::RankBody prepare_export(const ExportOptions& options, int rank);

}  // namespace nanofsdp::cli
