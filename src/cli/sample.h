#pragma once

#include <functional>
#include <memory>

#include "base/context.h"
#include "cli/options.h"
#include "comm/communicator.h"

namespace nanofsdp::cli {

/// What one rank does, when all that it needs has been read.
using RankBody = std::function<void(Context&, std::unique_ptr<comm::Communicator>)>;

/// Reads what `nanofsdp sample` needs to begin: what the model is, its tokenizer, the prompt. The
/// body then shards the model over the ranks, and rank 0 prints what it writes, after the notes.
/// @param options outlives the body
/// @throws UsageError if there is no such model, or the prompt is not of its tokens
RankBody prepare_sampling(const SampleOptions& options, int rank);

}  // namespace nanofsdp::cli
