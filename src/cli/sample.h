#pragma once

#include "cli/options.h"
#include "comm/run_ranks.h"

namespace nanofsdp::cli {

/// Reads what `nanofsdp sample` needs to begin: what the model is, its tokenizer, the prompt. The
/// body then shards the model over the ranks, and rank 0 prints what it writes, after the notes.
/// @param options outlives the body
/// @throws UsageError if there is no such model, or the prompt is not of its tokens
comm::RankBody prepare_sampling(const SampleOptions& options, int rank);

}  // namespace nanofsdp::cli
