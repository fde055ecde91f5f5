#pragma once

#include <ios>
#include <string>

#include "cli/options.h"

namespace nanofsdp::cli {

/// @file
/// @brief What a run writes: whether it can be written is known before the run begins.

/// Looks, and writes nothing: whether every file that training will write can be written, and is
/// none that would be missed. Only out_dir may be still to be made; metrics and a trace may replace
/// other JSON only.
/// @throws UsageError naming the option
void require_outputs(const TrainOptions& options);

/// Writes a file of text; with std::ios::app behind what is there.
/// @throws UsageError naming the option, if it cannot be written
void write_text(const std::string& option, const std::string& path, const std::string& text,
                std::ios::openmode mode = std::ios::trunc);

/// What was printed is where it should be.
/// @throws UsageError if standard output is full or closed
void flush_stdout();

}  // namespace nanofsdp::cli
