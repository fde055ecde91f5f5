#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/check.h"

namespace nanofsdp {

/// @file
/// @brief Reads files that the user names: as bytes, as a text, or mapped into memory. One function
/// prepares stdin, stdout and stderr.

/// Reads all bytes of a regular file. Devices and pipes are refused, because they may have no end.
/// @param fault says what the file is, what was expected and what to do; this function adds what it
///   found
/// @param most the largest size that makes sense, in bytes
/// @throws UsageError if there is no such file, if it is larger, or if it cannot be read
std::string read_file(const std::string& path, Fault fault, std::uint64_t most);

/// Reads a text. Line ends become `\n`, as when Python reads a text.
/// @throws UsageError as read_file()
std::string read_text(const std::string& path, Fault fault, std::uint64_t most);

/// A file that is mapped into memory. The system reads a page when it is first used, and may drop
/// it when memory is short, so a file may be larger than memory. The file must not shrink while it
/// is in use. Copies show the same memory.
class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the file.
  /// @throws UsageError as read_file()
  MappedFile(const std::string& path, Fault fault);

  /// The bytes of the file. A default MappedFile has none.
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(memory_.get()), size_};
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

/// Opens /dev/null, for reading, in place of each of stdin, stdout and stderr that was closed when
/// the program started. Otherwise a file or a connection would take its number, and get what is
/// printed. Some programs give a non-blocking pipe to those that they start; here it becomes a pipe
/// that waits for its reader. If a file exceeds the shell's limit, write() then returns an error,
/// as for a full disk, and no signal ends the program.
void prepare_for_output();

/// The fingerprint of a file's bytes. The file may be larger than memory.
/// @throws UsageError if it cannot be read
std::uint64_t fingerprint_of(const std::string& path);

}  // namespace nanofsdp
