#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief Files that the user names: read whole or not at all, never lost, never written in vain.

/// All bytes of a regular file: no device, no pipe, which might have no end.
/// @param fault says what the file is, what was expected and what to do; this adds what was there
/// @param most bytes that make sense
/// @throws UsageError if there is no such file, it is larger, or it cannot be read
std::string read_file(const std::string& path, Fault fault, std::uint64_t most);

/// Looks, and writes nothing: whether every file that training will write can be written, and is
/// none that would be missed. Only out_dir may be still to be made; metrics and a trace may replace
/// other JSON only.
/// @throws UsageError naming the option
void require_outputs(const TrainOptions& options);

/// What was printed is where it should be.
/// @throws UsageError if standard output is full or closed
void flush_stdout();

}  // namespace nanofsdp::train
