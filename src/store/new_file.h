#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/fingerprint.h"

namespace nanofsdp::store {

/// @file
/// @brief Writes files that last: a file is whole on the disk under its name, or it does not exist.

/// Waits until the names in a directory are on the disk, too. Some file systems cannot do that.
void sync_directory(const std::string& path);

/// @throws UsageError `cannot write 'path'` with the reason in errno
[[noreturn]] void cannot_write(const std::string& path);

/// A file that exists as a whole or not at all. The bytes go to `path.tmp`, which replaces `path`
/// in finish(). So a reader sees the old file or the new one, never half a file, if one program at
/// a time writes the path (owned_directory.h). If the object is destroyed before that, no file is
/// left. If the process is killed, `path.tmp` is left, and the next NewFile of that path writes
/// over it.
class NewFile {
 public:
  /// @throws UsageError if the file cannot be made
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(NewFile&&) = delete;  // so it cannot be copied either

  /// @throws UsageError if the disk is full
  void write(std::span<const std::byte> bytes);

  /// Waits until the bytes are on the disk, then gives the file its name.
  /// @throws UsageError if they do not get there
  void finish();

  std::uint64_t bytes() const { return bytes_; }              ///< bytes written so far
  std::uint64_t fingerprint() const { return fingerprint_; }  ///< the fingerprint of these bytes

 private:
  std::string path_;
  std::string temporary_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint64_t fingerprint_ = nanofsdp::fingerprint(std::string_view());
};

/// Writes a NewFile that holds this text.
/// @throws UsageError if the file cannot be made, or the disk is full
void write_new_file(const std::filesystem::path& path, std::string_view text);

}  // namespace nanofsdp::store
