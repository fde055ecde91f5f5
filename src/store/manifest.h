#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"

namespace nanofsdp::store {

/// @file
/// @brief The manifest of a checkpoint: where training stands, and which files belong to it.
///
/// JSON, the last file of a checkpoint to be written: where there is one, the checkpoint is whole.
/// It holds fingerprints of the other files and of itself, so damage is seen before it is loaded.

/// Where training stands, but for parameters and moments. This is all there is: masks of dropout
/// are functions of the iteration, and the place in the data is the generator's state, for batches
/// are drawn at random.
struct RunState {
  std::int64_t iteration = 0;  ///< steps that were made; the next one has this number
  std::int64_t optimizer_steps = 0;
  double best_val_loss = std::numeric_limits<double>::infinity();
  GeneratorState generator;                    ///< of batches
  std::string alphabet;                        ///< of the text; tokens are places in it, or
  std::int64_t vocab_size = 0;                 ///< so many, which are ...
  std::vector<std::string> pieces{};           ///< ... these (bpe_tokenizer.h); empty: unknown
  std::map<std::string, std::string> options;  ///< of the run, as on its command line
};

/// What one rank wrote.
struct FileRecord {
  std::uint64_t bytes = 0;
  std::uint64_t fingerprint = 0;
};

struct Manifest {
  RunState state;
  std::vector<FileRecord> files;  ///< one a rank
  std::uint64_t fingerprint = 0;  ///< of all this; computed when it is written
};

/// "rank_0_of_4.safetensors"
std::string rank_file_name(std::size_t rank, std::size_t ranks);

std::string write_manifest(const Manifest& manifest);

/// The reverse, trusting nothing.
/// @param path of the file, for messages
/// @param hint what the user can do if it is of no use
/// @throws UsageError if it is damaged, or not a manifest of ours
Manifest parse_manifest(const std::string& text, const std::string& path, const std::string& hint);

}  // namespace nanofsdp::store
