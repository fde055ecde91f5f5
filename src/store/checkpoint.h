#pragma once

#include <filesystem>
#include <string>

#include "comm/mesh.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "store/manifest.h"

namespace nanofsdp::store {

/// @file
/// @brief The room `store`: files that last. Checkpoints are those from which training goes on, at
/// any number of ranks.
///
/// Comes in: a sharded model, its optimizer, and what else is to be kept. Goes out: directories of
/// safetensors files; and, when they are read, the same state again. The weights of a model as a
/// whole, for other programs, are weights.h's.
///
///     DIR/checkpoint/             manifest.json (manifest.h)
///                                 rank_0_of_4.safetensors ... rank_3_of_4.safetensors
///     DIR/checkpoint.previous/    the one before, in case this one is damaged later
///     DIR/checkpoint.new/         one that is being written
///
/// Every rank writes one file (rank_file.h), of what slices.h says is its own.
///
/// At any moment there is a whole checkpoint, once there has been one. A new one is written aside;
/// when every file is on the disk, its manifest follows, and a directory with a manifest is whole.
/// Then the directories are renamed. Killed between these, the next run finds the new one where it
/// was written.
///
/// A program that goes on where it was stopped:
///
///     std::int64_t step = 0;
///     if (std::filesystem::exists(store::checkpoint_path(dir) / "manifest.json")) {
///       const store::Metadata kept = store::load_checkpoint(dir, sharded, adamw);
///       step = std::stoll(kept.at("step"));
///     }
///     for (; step < steps; ++step) {
///       if (step % 100 == 0)
///         store::save_checkpoint(dir, sharded, adamw, {{"step", std::to_string(step)}});
///       ...
///     }
///
/// Ranks on several machines need one DIR that all of them see; without, there are no checkpoints.

/// The directory of the last whole checkpoint in `out_dir`; DIR/checkpoint if there is none.
std::filesystem::path checkpoint_path(const std::string& out_dir);

/// What the last checkpoint says of itself.
/// @throws UsageError if there is none, or its manifest is damaged
Manifest read_manifest(const std::string& out_dir);

/// Saves a checkpoint. Collective; when it returns on any rank, the checkpoint is on the disk.
/// @param metadata what else the program needs to go on, by name: rank 0's is written
/// @returns false on every rank, and nothing is saved, if the ranks do not all see one `out_dir`
/// @throws UsageError, on every rank, if a file cannot be written; the checkpoint before is then
/// still there. Error as require_names() (weights.h)
bool save_checkpoint(const std::string& out_dir, fsdp::ShardedModel& model,
                     fsdp::ShardedOptimizer& optimizer, const Metadata& metadata = {});

/// Loads the last checkpoint into a model of its sizes. Collective; when it returns, every file has
/// been verified, each by one rank.
/// @param manifest of that checkpoint, read by this rank
/// @throws UsageError, on every rank, naming the file that is missing, damaged, or of another
/// model; CommError if ranks have read different manifests; Error if a unit is not at rest
void load_checkpoint(const std::string& out_dir, const Manifest& manifest,
                     fsdp::ShardedModel& model, fsdp::ShardedOptimizer& optimizer);

/// The same, of the last checkpoint as this rank finds it. @returns its metadata
Metadata load_checkpoint(const std::string& out_dir, fsdp::ShardedModel& model,
                         fsdp::ShardedOptimizer& optimizer);

/// What in `out_dir` stands where checkpoints go and is none; empty if nothing does. A checkpoint
/// takes the place of another, and nothing else's.
std::string obstacle_to_checkpoints(const std::string& out_dir);

}  // namespace nanofsdp::store
