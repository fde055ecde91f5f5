#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "store/manifest.h"

namespace nanofsdp::store {

/// @file
/// @brief The room `store`: files that last. A checkpoint is a set of files from which a run goes
/// on, at any number of ranks.
///
/// Comes in: a sharded model, its optimizer, and texts that the program wants to keep. Goes out:
/// directories of safetensors files; and, when they are read, the same state again. weights.h
/// writes the weights of a whole model for other programs.
///
///     DIR/checkpoint/             manifest.json (manifest.h)
///                                 rank_0_of_4.safetensors ... rank_3_of_4.safetensors
///     DIR/checkpoint.previous/    the checkpoint before, in case this one is damaged later
///     DIR/checkpoint.new/         a checkpoint that is being written
///
/// If two programs saved into one DIR at the same time, they would mix their files, and damage the
/// checkpoint. So rank 0 of a program first owns DIR (owned_directory.h), as `nanofsdp train` does.
/// A save never removes files of others from these directories. If the previous checkpoint's
/// directory has such files, it is set aside with them. DIR/checkpoint may be a link to a
/// checkpoint elsewhere: saves replace the link, and leave alone what it leads to.
///
/// Every rank writes one file (rank_file.h). It holds the slices that belong to the rank
/// (slices.h).
///
/// After the first save of its only owner, DIR has a whole checkpoint at every moment. A new
/// checkpoint is written beside the others. When all its files are on the disk, the manifest is
/// written, and a directory with a manifest is whole. Then the directories are renamed. If the run
/// is killed between two of these steps, the next run finds the new checkpoint where it was
/// written.
///
/// A program that goes on where it was stopped:
///
///     std::shared_ptr<void> owned;
///     if (context.rank == 0) owned = store::own_directory(dir);
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
/// Every parameter needs a name of its own. require_names() (weights.h) tells before training
/// whether they all have one.
///
/// If ranks run on several machines, all of them must see the same DIR. If they do not, no
/// checkpoint is saved.

/// The directory of the last whole checkpoint in `out_dir`; DIR/checkpoint if there is none.
std::filesystem::path checkpoint_path(const std::string& out_dir);

/// The manifest of the last checkpoint.
/// @throws UsageError if there is none, or its manifest is damaged
Manifest read_manifest(const std::string& out_dir);

/// Saves a checkpoint. Collective; when it returns on any rank, the checkpoint is on the disk.
/// @param metadata texts that the program needs to go on, by name; those of rank 0 are written
/// @returns nothing on every rank, and saves nothing, if the ranks do not all see the same
///   `out_dir`. Otherwise a path: on rank 0, the directory to which files of others had to go
///   (set_aside() in owned_directory.h); empty on other ranks, and if there were no such files
/// @throws UsageError, on every rank, if a file cannot be written; the checkpoint before is then
///   still there. Error as require_names() (weights.h), or if a parameter has no value
std::optional<std::filesystem::path> save_checkpoint(const std::string& out_dir,
                                                     fsdp::ShardedModel& model,
                                                     fsdp::ShardedOptimizer& optimizer,
                                                     const Metadata& metadata = {});

/// Loads the last checkpoint into a model of the same sizes. Collective; when it returns, every
/// file has been verified by one rank.
/// @returns its metadata
/// @throws UsageError, on every rank, naming the file that is missing, damaged, or of another
///   model; CommError if ranks have read different manifests; Error if a unit is not at rest
Metadata load_checkpoint(const std::string& out_dir, fsdp::ShardedModel& model,
                         fsdp::ShardedOptimizer& optimizer);

}  // namespace nanofsdp::store
