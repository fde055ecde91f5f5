#pragma once

#include <memory>

#include "cli/options.h"

namespace nanofsdp::cli {

/// @file
/// @brief Prints a run for people: summary, progress, evaluations and a final table. Writes the
/// metrics file for programs.

/// Trains or evaluates on this rank. Rank 0 prints the run, and writes the files that the options
/// name.
/// @throws UsageError if --reference cannot be read, or if standard output or a file is full
void train_and_report(Context& context, std::unique_ptr<comm::Communicator> world,
                      const TrainOptions& options, const data::Dataset& dataset);

}  // namespace nanofsdp::cli
