#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/fingerprint.h"
#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief Files that the user names: read whole or not at all, never lost, never written in vain.

/// All bytes of a regular file: no device, no pipe, which might have no end.
/// @param fault says what the file is, what was expected and what to do; this adds what was there
/// @param most bytes that make sense
/// @throws UsageError if there is no such file, it is larger, or it cannot be read
std::string read_file(const std::string& path, Fault fault, std::uint64_t most);

/// The fingerprint of a file's bytes, which need not fit into memory.
/// @throws UsageError if it cannot be read
std::uint64_t fingerprint_of(const std::string& path);

/// Waits until the names in a directory are on the disk, too. Not every file system can.
void sync_directory(const std::string& path);

/// @throws UsageError `cannot write 'path'` with the reason in errno
[[noreturn]] void cannot_write(const std::string& path);

/// A file that is there as a whole or not at all. The bytes go to a file without a name, which
/// takes the place of `path` in finish(): a reader sees the old file or the new one, never half of
/// one. Destroyed before that, or killed, it leaves nothing behind. (Where every file has a name,
/// it is `path.tmp`, and stays if the process is killed.)
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

/// Looks, and writes nothing: whether every file that training will write can be written, and is
/// none that would be missed. Only out_dir may be still to be made; metrics and a trace may replace
/// other JSON only.
/// @throws UsageError naming the option
void require_outputs(const TrainOptions& options);

/// What was printed is where it should be.
/// @throws UsageError if standard output is full or closed
void flush_stdout();

}  // namespace nanofsdp::train
