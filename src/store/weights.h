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
/// @brief The weights of a trained model, in one file DIR/model.safetensors or in one file for each
/// rank.
///
/// The file holds a tensor for every parameter, under its name and with its shape. A weight that
/// modules share, as nanoGPT's head and embedding do, is stored once. The metadata hold whatever
/// else the program wants to keep.
///
///     store::save_weights("out", sharded, {{"made_by", "perceptron"}});
///
///     Model other;  // of the same shapes, at any number of ranks
///     auto loaded = fsdp::fully_shard(context, other, mesh, {});
///     store::load_weights("out", loaded);
///
/// With one file for each rank, no rank writes the whole model. PyTorch's distributed checkpoint
/// loads such files into a model under fully_shard, at any number of ranks:
///
///     store::save_sharded_weights("shards", sharded, {});
///
///     dcp.load(state, storage_reader=HuggingFaceStorageReader("shards"))   # Python
///
/// PyTorch requires boxes, one of each name in a file, so a file holds whole rows. A flat shard may
/// end within a row. So the ranks gather each unit, and each rank writes the rows that torch.chunk
/// gives it. The files are the same under every layout and strategy.

/// DIR/model.safetensors.
std::filesystem::path weights_path(const std::string& out_dir);

/// Gathers the model unit by unit; rank 0 of its mesh writes it. Collective; when it returns on any
/// rank, the file is on the disk.
/// @param out_dir need not exist. One program at a time writes there (owned_directory.h)
/// @param metadata without `shards` and `DCP_SHARDING_INFO`, which belong to files of ranks and are
///   left out
/// @throws UsageError, on every rank, if the file cannot be written; the earlier file is then still
/// there. Error as require_names()
void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, Metadata metadata);

/// Gathers the model unit by unit; every rank writes
/// DIR/shard-RANK-model-00001-of-00001.safetensors, RANK from 00001 up (weights_files.h).
/// Collective; when it returns on any rank, all files are written.
/// @param directory without other weights; it need not exist
/// @param metadata as in save_weights(), except `shards` and `DCP_SHARDING_INFO`, which this
///   function sets
/// @param dtype float32 or bfloat16, to which the weights are rounded in the files. Parameters that
///   are stored as bfloat16 are written as bfloat16 in any case
/// @throws UsageError, on every rank, if it has other weights, or a file cannot be written; Error
/// as require_names()
void save_sharded_weights(const std::string& directory, fsdp::ShardedModel& model,
                          Metadata metadata, DType dtype = DType::float32);

/// Fills a model that has the parameters of the files. Every rank reads, and keeps the elements
/// that belong to it. Collective; when it returns on any rank, all ranks have read.
/// @param out_dir with one file or many (weights_files.h)
/// @throws UsageError, on every rank, naming the parameters that only the model has, those that
/// only the files have, and those of another shape; or as WeightsFiles. Error if a unit is not at
/// rest: in the middle of a pass
void load_weights(const std::string& out_dir, fsdp::ShardedModel& model);

/// This rank's number among all ranks that together() brings together. Tensor groups are
/// neighbours.
int rank_of(comm::Mesh& mesh);
/// The number of these ranks.
int ranks_of(comm::Mesh& mesh);

/// Runs `part` on each rank, and waits until all ranks have run theirs. A rank may take long: the
/// others know that it works (comm::Communicator::busy). Collective, control traffic. A simulated
/// device has no files, so no part runs there, and the callers in this room do all the rest.
/// @param at what the rank does, for people: the words after "rank 0"
/// @param part calls no collective; it writes into `mine` what the other ranks need to know
/// @returns the records of all ranks, in rank order
/// @throws UsageError, on every rank, if the part of any rank has thrown a UsageError or an error
/// of the file system, with the words of the first such error
std::vector<FileRecord> together(fsdp::ShardedModel& model, const std::string& at,
                                 const std::function<void(FileRecord& mine)>& part);

/// Requires that files can hold the parameters under their names. All ranks have the same names.
/// @param states names of the optimizer's states, which the same files hold
/// @throws Error as add_name(), or if a parameter is a part of another rank of the tensor group
void require_names(fsdp::ShardedModel& model, std::span<const std::string> states = {});

/// The whole parameters in the order of the units, as files name them.
std::vector<TensorInfo> infos_of(fsdp::ShardedModel& model);
/// The same for one parameter. If it is a part, this is the whole parameter.
TensorInfo info_of(const nn::Parameter& parameter);

}  // namespace nanofsdp::store
