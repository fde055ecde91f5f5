#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/check.h"

namespace nanofsdp {

/// @file
/// @brief Files that the user names, read: whole, as a text, or where they lie.

/// All bytes of a regular file: no device, no pipe, which might have no end.
/// @param fault says what the file is, what was expected and what to do; this adds what was there
/// @param most bytes that make sense
/// @throws UsageError if there is no such file, it is larger, or it cannot be read
std::string read_file(const std::string& path, Fault fault, std::uint64_t most);

/// A text, with line ends as `\n`, as Python reads one.
/// @throws UsageError as read_file()
std::string read_text(const std::string& path, Fault fault, std::uint64_t most);

/// A file's bytes where they lie. The system reads a page when it is touched and may forget it when
/// memory is short, so a file may be larger than memory. It must not shrink while it is in use.
/// Copies show the same memory.
class MappedFile {
 public:
  MappedFile() = default;
  /// @throws UsageError as read_file()
  MappedFile(const std::string& path, Fault fault);

  /// All of the file; none of a default MappedFile.
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(memory_.get()), size_};
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

/// The fingerprint of a file's bytes, which need not fit into memory.
/// @throws UsageError if it cannot be read
std::uint64_t fingerprint_of(const std::string& path);

}  // namespace nanofsdp
