#pragma once

#include <string>

#include "cli/options.h"
#include "comm/communicator.h"

namespace nanofsdp::cli {

/// @file
/// @brief Checks before a run begins that it can write its files. Prints what must not be lost.

/// Requires that every file of a training can be written, and that no file is lost which the user
/// still needs. It writes nothing. The only directory that may be missing is out_dir. Metrics and a
/// trace may replace only a file of JSON.
/// @throws UsageError naming the option
void require_outputs(const TrainOptions& options);

/// Requires that a file can be written, and that no file of something else is lost.
/// @param begin the first words of a file that may be replaced; empty: any file
/// @param made  a directory that will be made; the file's own must exist, or be this one
/// @param got   what speaks against the file already; empty: nothing
/// @throws UsageError naming the option
void require_output(const std::string& option, const std::string& path, const std::string& begin,
                    const std::string& made = "", std::string got = "");

/// Writes a text to a file.
/// @throws UsageError naming the option, if it cannot be written
void write_text(const std::string& option, const std::string& path, const std::string& text);

/// Prints a text on one rank, and waits until the system has taken it. A reader may pause, as a
/// pager and a terminal after Ctrl-S do. Such a pause does not count for the timeouts of the other
/// ranks.
/// @throws UsageError if standard output is full or closed
void print_alone(comm::Communicator& world, const std::string& text);

/// Makes sure that all printed text has been written.
/// @throws UsageError if standard output is full or closed
void flush_stdout();

}  // namespace nanofsdp::cli
