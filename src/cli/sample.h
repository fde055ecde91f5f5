#pragma once

#include "cli/options.h"
#include "comm/run_ranks.h"
#include "fsdp/fully_shard.h"
#include "train/model_file.h"

namespace nanofsdp::cli {

/// @file
/// @brief What is done with a saved model: it writes text, or is written to other files.

/// What a trained model is.
/// @throws UsageError if there is none
train::WeightsInfo read_info(const SavedModel& saved);

/// Fills a model of that configuration; every rank reads, and keeps what belongs to it.
/// @throws UsageError if the files are not of this model
void load(const SavedModel& saved, fsdp::ShardedModel& model);

/// Reads what `nanofsdp sample` needs to begin: what the model is, its tokenizer, the prompt. The
/// body then shards the model over the ranks, and rank 0 prints what it writes, after the notes.
/// @param options outlives the body
/// @throws UsageError if there is no such model, or the prompt is not of its tokens
comm::RankBody prepare_sampling(const SampleOptions& options, int rank);

/// Reads what `nanofsdp export` needs to begin: what the model is. The body then shards it over the
/// ranks, and each writes its file.
/// @param options outlives the body
/// @throws UsageError if there is no such model
comm::RankBody prepare_export(const ExportOptions& options, int rank);

}  // namespace nanofsdp::cli
