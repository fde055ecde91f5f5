#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/safetensors_header.h"

namespace nanofsdp::store {

/// @file
/// @brief The manifest of a checkpoint: what the checkpoint holds, and in which files.
///
/// The manifest is JSON. It is the last file of a checkpoint to be written, so a checkpoint with a
/// manifest is whole. It holds fingerprints of the other files and of itself, so damage is noticed
/// before anything is loaded.

/// The file that one rank wrote.
struct FileRecord {
  std::uint64_t bytes = 0;        ///< size of the file
  std::uint64_t fingerprint = 0;  ///< fingerprint of its bytes (base/fingerprint.h)
};

/// The contents of a manifest.
struct Manifest {
  std::int64_t optimizer_steps = 0;  ///< steps made before it was saved
  Metadata metadata;                 ///< texts that the program keeps there, by name
  std::vector<FileRecord> files;     ///< one for each rank
  std::uint64_t fingerprint = 0;  ///< fingerprint of the members above; computed when it is written
};

/// The most bytes that a manifest may have. No larger one is read or written.
inline constexpr std::uint64_t kLargestManifest = 100'000'000;

/// The name of a rank's file, such as "rank_0_of_4.safetensors".
std::string rank_file_name(std::size_t rank, std::size_t ranks);

/// The text of manifest.json, with its fingerprint. Bytes of the metadata that are not UTF-8 are
/// replaced (text_of in safetensors_header.h).
/// @throws UsageError if the metadata make it too large
std::string write_manifest(const Manifest& manifest);

/// Reads such a text. It may be damaged, or of another program.
/// @param path of the file, for messages
/// @param hint what the user can do if the manifest cannot be used
/// @throws UsageError if it is damaged, or not a manifest of ours
Manifest parse_manifest(const std::string& text, const std::string& path, const std::string& hint);

}  // namespace nanofsdp::store
