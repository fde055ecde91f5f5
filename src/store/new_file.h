#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fingerprint.h"

namespace nanofsdp::store {

/// @file
/// @brief Writing files that last: whole on the disk under their name, or not at all.

/// Waits until the names in a directory are on the disk, too. Not every file system can.
void sync_directory(const std::string& path);

/// @throws UsageError `cannot write 'path'` with the reason in errno
[[noreturn]] void cannot_write(const std::string& path);

/// A file that is there as a whole or not at all. The bytes go to a file without a name, which
/// takes the place of `path` in finish(): a reader sees the old file or the new one, never half of
/// one. Destroyed or killed before that it leaves nothing behind; killed in the instant when the
/// file is whole but not yet in its place, `path.tmp`, which the next one removes. (Where every
/// file has a name from the start, that is it.)
class NewFile {
 public:
  /// @throws UsageError if the file cannot be made
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// @throws UsageError if the disk is full
  void write(std::span<const std::byte> bytes);

  /// Waits until the bytes are on the disk, then gives the file its name.
  /// @throws UsageError if they do not get there
  void finish();

  std::uint64_t bytes() const { return bytes_; }              ///< written so far
  std::uint64_t fingerprint() const { return fingerprint_; }  ///< of them

 private:
  std::string path_;
  std::string temporary_;
  int file_ = -1;
  bool nameless_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t fingerprint_ = nanofsdp::fingerprint(std::string_view());
};

}  // namespace nanofsdp::store
