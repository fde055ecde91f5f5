#pragma once

#include "cli/options.h"
#include "fsdp/fully_shard.h"
#include "train/model_file.h"

namespace nanofsdp::cli {

/// @file
/// @brief The trained model that a command is about, by its files.

/// What it is.
/// @throws UsageError if there is none
train::WeightsInfo read_info(const SavedModel& saved);

/// Fills a model of that configuration; every rank reads, and keeps what belongs to it.
/// @throws UsageError if the files are not of this model
void load(const SavedModel& saved, fsdp::ShardedModel& model);

}  // namespace nanofsdp::cli
