#pragma once

#include "cli/options.h"
#include "comm/run_ranks.h"

namespace nanofsdp::cli {

/// Reads what `nanofsdp export` needs to begin: what the model is. The body then shards it over the
/// ranks, and each writes its file.
/// @param options outlives the body
/// @throws UsageError if there is no such model
comm::RankBody prepare_export(const ExportOptions& options, int rank);

}  // namespace nanofsdp::cli
