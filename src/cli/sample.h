#pragma once

#include "cli/options.h"
#include "comm/run_ranks.h"
#include "fsdp/fully_shard.h"
#include "train/model_file.h"

namespace nanofsdp::cli {

/// @file
/// @brief Uses a saved model: to write text, or to write the model to other files.

/// Reads the description of a trained model.
/// @throws UsageError if there is none
train::WeightsInfo read_info(const SavedModel& saved);

/// Fills a model of that configuration. Every rank reads, and keeps the elements that belong to it.
/// @throws UsageError if the files are not of this model
void load(const SavedModel& saved, fsdp::ShardedModel& model);

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
