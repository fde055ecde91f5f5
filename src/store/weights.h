#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "store/manifest.h"
#include "store/safetensors.h"

namespace nanofsdp::store {

/// @file
/// @brief A trained model in one file, DIR/model.safetensors, or in one file a rank.
///
/// A tensor for every parameter, by its name and shape. A weight that modules share, as nanoGPT's
/// head and embedding do, is stored once. What else belongs to the model is in the metadata.
///
///     store::save_weights("out", sharded, {{"made_by", "perceptron"}}, context.rank);
///
///     Model other;  // of the same shapes, at any number of ranks
///     auto loaded = fsdp::fully_shard(context, other, mesh, {});
///     store::load_weights("out", loaded);
///
/// With a file a rank no rank writes the whole model, and PyTorch's distributed checkpoint loads it
/// into a model under fully_shard, at any number of ranks:
///
///     store::save_sharded_weights("shards", sharded, {});
///
///     dcp.load(state, storage_reader=HuggingFaceStorageReader("shards"))   # Python
///
/// A file has whole rows, because PyTorch wants boxes: one of a name in a file. A flat shard ends
/// within a row. So each unit is gathered, and each rank writes those rows that torch.chunk gives
/// it: the files are the same at every layout and strategy.

/// DIR/model.safetensors.
std::filesystem::path weights_path(const std::string& out_dir);

/// Gathers the model unit by unit; rank 0 writes it. Collective; when it returns on any rank, the
/// file is on the disk.
/// @throws UsageError, on every rank, if the file cannot be written; the one before it is then
/// still there. Error as require_names()
void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, const Metadata& metadata,
                  int rank);

/// Gathers the model unit by unit; every rank writes
/// DIR/shard-RANK-model-00001-of-00001.safetensors, RANK from 00001 up (weights_files.h).
/// Collective; when it returns on any rank, all files are written.
/// @param directory of no other weights; it need not exist
/// @throws UsageError, on every rank, if it has other weights, or a file cannot be written; Error
/// as require_names()
void save_sharded_weights(const std::string& directory, fsdp::ShardedModel& model,
                          Metadata metadata);

/// Fills a model of those parameters; every rank reads, and keeps what belongs to it. Collective;
/// when it returns on any rank, all have read.
/// @param out_dir with one file or many (weights_files.h)
/// @throws UsageError, on every rank, naming the parameters that the files lack, that they have and
/// the model does not, and those of another shape; or as WeightsFiles. Error if a unit is not at
/// rest: in the middle of a pass
void load_weights(const std::string& out_dir, fsdp::ShardedModel& model);

/// Runs `part` on each rank, and waits until all ranks have run theirs. A rank may take its time:
/// the others know that it works (comm::Communicator::busy). Collective, control traffic.
/// @param at what the rank does, for people: the words after "rank 0"
/// @param part calls no collective; it writes what the other ranks are to know into `mine`
/// @returns the records of all ranks, in rank order
/// @throws UsageError, on every rank, if the part of any rank has thrown a UsageError or an error
/// of the file system; it says what the first of these says
std::vector<FileRecord> together(fsdp::ShardedModel& model, const std::string& at,
                                 const std::function<void(FileRecord& mine)>& part);

/// Whether files can hold the parameters under their names, as they are on every rank.
/// @param states of the optimizer, which are in the same files
/// @throws Error as add_name()
void require_names(fsdp::ShardedModel& model, std::span<const std::string> states = {});

/// The parameters in the order of the units, as files name them.
std::vector<TensorInfo> infos_of(fsdp::ShardedModel& model);
/// One of them.
TensorInfo info_of(const nn::Parameter& parameter);

}  // namespace nanofsdp::store
