#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/safetensors_header.h"

namespace nanofsdp::store {

/// @file
/// @brief The manifest of a checkpoint: what belongs to it, and which files.
///
/// JSON, the last file of a checkpoint to be written: where there is one, the checkpoint is whole.
/// It holds fingerprints of the other files and of itself, so damage is seen before it is loaded.

/// What one rank wrote.
struct FileRecord {
  std::uint64_t bytes = 0;        ///< of the file
  std::uint64_t fingerprint = 0;  ///< of those bytes (base/fingerprint.h)
};

/// What a checkpoint says of itself.
struct Manifest {
  std::int64_t optimizer_steps = 0;  ///< made before it was saved
  Metadata metadata;                 ///< what else the program keeps there, by name
  std::vector<FileRecord> files;     ///< one a rank
  std::uint64_t fingerprint = 0;     ///< of all this; computed when it is written
};

/// Bytes that a manifest may have: no larger one is read, and none is written.
inline constexpr std::uint64_t kLargestManifest = 8'000'000;

/// "rank_0_of_4.safetensors"
std::string rank_file_name(std::size_t rank, std::size_t ranks);

/// The text of manifest.json, with the fingerprint worked out. What is not UTF-8 in the metadata is
/// replaced (text_of in safetensors_header.h).
/// @throws UsageError if it is too large, because the metadata are
std::string write_manifest(const Manifest& manifest);

/// The reverse, trusting nothing.
/// @param path of the file, for messages
/// @param hint what the user can do if it is of no use
/// @throws UsageError if it is damaged, or not a manifest of ours
Manifest parse_manifest(const std::string& text, const std::string& path, const std::string& hint);

}  // namespace nanofsdp::store
