#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "store/checkpoint.h"
#include "support/ranks.h"
#include "support/saved_state.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::testing {

/// @file
/// @brief Checkpoints of a small training. Ranks that are threads save and load them.

namespace fs = std::filesystem;
using State = std::vector<float>;

/// The texts that a program keeps in a checkpoint. They differ with the iteration.
inline store::Metadata metadata_at(std::int64_t iteration) {
  return {{"iteration", std::to_string(iteration)},
          {"alphabet", "\n\"\\\u00e9"},
          {"format", "none of ours"},
          {"", "{}"}};
}

template <class Body>
std::vector<State> on_ranks(int world, const TinyOptions& options, const Body& body,
                            Backend backend = Backend::local) {
  return run_ranks(world == 1 ? Backend::self : backend, world,
                   [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                     TinyTraining t(context, std::move(group), options);
                     body(t);
                     return saved_state(t);
                   });
}

inline void save(TinyTraining& t, const std::string& out_dir, std::int64_t iteration) {
  store::save_checkpoint(out_dir, t.sharded, t.optimizer, metadata_at(iteration));
}

inline void load(TinyTraining& t, const std::string& out_dir) {
  store::load_checkpoint(out_dir, t.sharded, t.optimizer);
}

/// Trains until an iteration and saves.
inline State save_after(std::int64_t steps, const std::string& out_dir, int world = 4,
                        const TinyOptions& options = {}) {
  return whole_state(on_ranks(world, options, [&](TinyTraining& t) {
    for (std::int64_t s = 0; s < steps; ++s) t.step(s);
    save(t, out_dir, steps);
  }));
}

inline State load_at(int world, const std::string& out_dir, const TinyOptions& options = {}) {
  return whole_state(on_ranks(world, options, [&](TinyTraining& t) { load(t, out_dir); }));
}

/// The error of loading on one rank.
inline std::string load_error(const std::string& out_dir) {
  return usage_error([&] {
    Context context;
    TinyTraining t(context, comm::make_self(), {});
    load(t, out_dir);
  });
}

/// All files in a directory.
inline std::map<std::string, std::string> tree(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    files[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path().string()) : "";
  }
  return files;
}

inline void flip_bit(const std::string& path, std::uintmax_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(byte));
  const char old = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(static_cast<char>(old ^ (1 << bit)));
}

}  // namespace nanofsdp::testing
