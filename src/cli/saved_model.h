#pragma once

#include "cli/options.h"
#include "comm/run_ranks.h"

namespace nanofsdp::cli {

/// @file
/// @brief Uses a saved model: to write text, or to write the model to other files.

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
