#include "store/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/check.h"
#include "base/file.h"
#include "comm/agreement.h"
#include "store/new_file.h"
#include "store/owned_directory.h"
#include "store/rank_file.h"
#include "store/slices.h"
#include "store/weights.h"

namespace nanofsdp::store {
namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "manifest.json";
constexpr char kSaves[] = "saves a checkpoint", kLoads[] = "loads a checkpoint";

fs::path current(const fs::path& out_dir) { return out_dir / "checkpoint"; }
fs::path previous(const fs::path& out_dir) { return out_dir / "checkpoint.previous"; }
fs::path unfinished(const fs::path& out_dir) { return out_dir / "checkpoint.new"; }

bool is_whole(const fs::path& checkpoint) {
  std::error_code ignored;
  return fs::exists(checkpoint / kManifest, ignored);
}

// ---- directories

// Removes only files that we write. If there are other files, the directory stays. The manifest
// goes first, because no program takes a directory without it for a checkpoint.
void remove_checkpoint(const fs::path& checkpoint) {
  static const std::regex ours(R"((manifest\.json|rank_\d+_of_\d+\.safetensors)(\.tmp)?)");
  if (fs::is_symlink(checkpoint)) return void(fs::remove(checkpoint));  // its files are another's
  if (!fs::is_directory(checkpoint)) return;
  fs::remove(checkpoint / kManifest);
  const std::vector<fs::path> all(fs::directory_iterator(checkpoint), {});
  for (const fs::path& file : all)
    if (std::regex_match(file.filename().string(), ours)) fs::remove(file);
  if (fs::is_empty(checkpoint)) fs::remove(checkpoint);
}

// The current checkpoint becomes the previous one, and the new checkpoint becomes the current one.
// If files of others lay in the previous one, they are set aside. Returns where; empty if there
// were none.
fs::path rotate(const fs::path& out_dir) {
  fs::path aside;
  if (fs::exists(fs::symlink_status(current(out_dir)))) {  // also a link that leads nowhere
    remove_checkpoint(previous(out_dir));
    aside = set_aside(out_dir, {previous(out_dir).filename()});
    fs::rename(current(out_dir), previous(out_dir));
  }
  fs::rename(unfinished(out_dir), current(out_dir));
  sync_directory(out_dir.string());
  return aside;
}

void make_room(const fs::path& out_dir) {
  // An earlier run was killed before it did this.
  if (is_whole(unfinished(out_dir))) rotate(out_dir);
  remove_checkpoint(unfinished(out_dir));
  fs::create_directories(unfinished(out_dir));
}

// ---- saving

// Whether all ranks see the directory that rank 0 has just made. On several machines, each may have
// a directory of its own.
bool all_see(const fs::path& directory, fsdp::ShardedModel& model) {
  const auto seen = together(model, kSaves, [&](FileRecord& mine) {
    std::error_code unseen;
    const auto made = fs::last_write_time(directory, unseen).time_since_epoch().count();
    mine.bytes = unseen ? 0 : static_cast<std::uint64_t>(made);
  });
  return std::ranges::count(seen, seen[0].bytes, &FileRecord::bytes) == std::ssize(seen);
}

// The slices that this rank saves. The first rank of a tensor group saves the parameters that all
// its ranks have.
std::vector<StateSlice> own_slices(fsdp::ShardedModel& model, fsdp::ShardedOptimizer& optimizer) {
  std::vector<StateSlice> slices = slices_of(model.units(), optimizer, Slices::to_save);
  if (model.mesh().tensor().rank() > 0)
    std::erase_if(slices, [](const StateSlice& slice) { return slice.blocks.is_whole(); });
  return slices;
}

// ---- loading

void verify(const fs::path& path, const FileRecord& record, const std::string& hint) {
  const std::string what = "checkpoint file '" + path.string() + "'";
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  NANOFSDP_REFUSE_IF(error || size != record.bytes, .what = what,
                     .expected = fmt::format("{} bytes", record.bytes),
                     .got = error ? error.message() : fmt::to_string(size), .hint = hint);
  NANOFSDP_REFUSE_IF(fingerprint_of(path.string()) != record.fingerprint, .what = what,
                     .expected = "the bytes that were saved",
                     .got = "others: it is damaged, or of another checkpoint", .hint = hint);
}

// The hint for the user if the checkpoint cannot be used.
std::string remedy(const fs::path& out_dir) {
  const fs::path before = is_whole(unfinished(out_dir)) ? current(out_dir) : previous(out_dir);
  if (!is_whole(before)) return "";
  return "to go back to the one before, put '" + before.string() + "' in its place";
}

}  // namespace

fs::path checkpoint_path(const std::string& out_dir) {
  return is_whole(unfinished(out_dir)) ? unfinished(out_dir) : current(out_dir);
}

Manifest read_manifest(const std::string& out_dir) {
  const auto read = [&] {
    const std::string path = (checkpoint_path(out_dir) / kManifest).string();
    const std::string text =
        read_file(path,
                  {.what = "checkpoint '" + path + "'",
                   .expected = "one saved by `nanofsdp train --out_dir=" + out_dir + "`",
                   .hint = remedy(out_dir)},
                  kLargestManifest);
    return parse_manifest(text, path, remedy(out_dir));
  };
  try {
    return read();
  } catch (const UsageError&) {
    return read();  // a run may have renamed its directory meanwhile
  }
}

std::optional<fs::path> save_checkpoint(const std::string& out_dir, fsdp::ShardedModel& model,
                                        fsdp::ShardedOptimizer& optimizer,
                                        const Metadata& metadata) {
  Context& context = model.context();
  comm::Mesh& mesh = model.mesh();
  const auto rank = static_cast<std::size_t>(rank_of(mesh));
  const auto files =
      static_cast<std::size_t>(model.rows()[0]->layout().world_size() * mesh.tensor().size());
  const fs::path directory = unfinished(out_dir);
  require_names(model, optimizer.state_names());
  const std::vector<StateSlice> slices = own_slices(model, optimizer);  // all ranks throw, or none
  for (const fsdp::Unit& unit : model.units()) unit.require_initialised();
  context.compute->synchronize();
  together(model, kSaves, [&](FileRecord&) { rank == 0 ? make_room(out_dir) : void(); });
  if (!all_see(directory, model)) {
    if (rank == 0) remove_checkpoint(directory);
    return std::nullopt;
  }
  fs::path aside;
  try {
    //! [write]
    auto records = together(model, kSaves, [&](FileRecord& mine) {
      if (rank >= files) return;
      mine = write_rank_file(directory / rank_file_name(rank, files), *context.compute, slices);
    });
    records.resize(files);  // replicas have written nothing
    together(model, kSaves, [&](FileRecord&) {
      if (rank > 0) return;
      write_new_file(directory / kManifest, write_manifest({.optimizer_steps = optimizer.steps(),
                                                            .metadata = metadata,
                                                            .files = records}));
      aside = rotate(out_dir);
    });
    //! [write]
  } catch (const UsageError&) {  // a disk is full, perhaps with files that the other ranks wrote
    if (rank == 0 && !is_whole(directory)) remove_checkpoint(directory);
    throw;
  }
  return aside;
}

Metadata load_checkpoint(const std::string& out_dir, fsdp::ShardedModel& model,
                         fsdp::ShardedOptimizer& optimizer) {
  Manifest manifest;
  together(model, kLoads, [&](FileRecord&) { manifest = read_manifest(out_dir); });
  Context& context = model.context();
  comm::Mesh& mesh = model.mesh();
  const fs::path directory = checkpoint_path(out_dir);
  require_names(model, optimizer.state_names());
  const std::vector<StateSlice> slices = slices_of(model.units(), optimizer, Slices::to_load);
  for (comm::Communicator* ranks : {&mesh.tensor(), &mesh.world()})
    comm::require_agreement(*ranks, *context.compute, "checkpoint", manifest.fingerprint,
                            "all ranks must see the same --out_dir, in which no run saves now");
  // If the files are not as the manifest says, they may be those of a newer checkpoint.
  const auto load = [&](const auto& work) {
    const auto require_same = [&](const fs::path& place) {
      NANOFSDP_REFUSE_IF(
          place != directory || read_manifest(out_dir).fingerprint != manifest.fingerprint,
          .what = "checkpoint '" + directory.string() + "'",
          .got = "another one, which a run has saved meanwhile", .hint = "start again");
    };
    together(model, kLoads, [&](FileRecord&) {
      try {
        work();
      } catch (const UsageError&) {  // perhaps a run has renamed its directory
        require_same(checkpoint_path(out_dir));
        throw;
      }
      require_same(directory);
    });
  };
  const std::size_t files = manifest.files.size();
  load([&] {
    for (auto f = static_cast<std::size_t>(rank_of(mesh)); f < files;
         f += static_cast<std::size_t>(ranks_of(mesh))) {
      verify(directory / rank_file_name(f, files), manifest.files[f], remedy(out_dir));
    }
  });  // now every rank knows that all files are good, before it uses one
  for (const bool writes : {false, true})  // no rank writes before all have found all
    load([&] {
      read_rank_files(directory, files, *context.compute, infos_of(model), slices,
                      manifest.optimizer_steps, writes);
      if (writes) finish_loading(model.units(), optimizer, manifest.optimizer_steps);
    });  // no rank trains before all have loaded
  return manifest.metadata;
}

}  // namespace nanofsdp::store
