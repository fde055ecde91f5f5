#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "store/safetensors.h"

namespace nanofsdp::store {

/// @file
/// @brief A trained model in one file: DIR/model.safetensors.
///
/// A tensor for every parameter, by its name and shape. A weight that modules share, as nanoGPT's
/// head and embedding do, is stored once. What else belongs to the model travels in the metadata.
///
///     store::save_weights("out", sharded, {{"made_by", "perceptron"}}, context.rank);
///
///     Model other;  // of the same shapes, at any number of ranks
///     auto loaded = fsdp::fully_shard(context, other, mesh, {});
///     store::load_weights("out", loaded);

/// DIR/model.safetensors.
std::filesystem::path weights_path(const std::string& out_dir);

/// Gathers the model unit by unit; rank 0 writes it. Collective.
/// @throws UsageError if the file cannot be written; the one before it is then still there
void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, const Metadata& metadata,
                  int rank);

/// Fills a model of those parameters; every rank reads, and keeps what belongs to it.
/// @throws UsageError naming the parameters that the file lacks, that it has and the model does
/// not, and those of another shape
void load_weights(const std::string& out_dir, fsdp::ShardedModel& model);

/// The parameters in the order of the units, as files name them.
std::vector<TensorInfo> infos_of(fsdp::ShardedModel& model);
/// One of them.
TensorInfo info_of(const nn::Parameter& parameter);

}  // namespace nanofsdp::store
