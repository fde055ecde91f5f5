#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/new_file.h"
#include "store/safetensors_header.h"

namespace nanofsdp::store {

/// @file
/// @brief Weights in a file that PyTorch's world reads: the safetensors format, float32 only.
///
///     8 bytes     N, little-endian
///     N bytes     JSON that names the tensors (safetensors_header.h), N a multiple of 8 when ours
///     the rest    the tensors' elements, little-endian, row-major, without gaps
///
/// Format: huggingface.co/docs/safetensors. Files from elsewhere are not trusted: every length is
/// checked against the file's size before it is used.

/// Writes one file front to back, so that no caller needs all tensors at once. Under its name it is
/// there as a whole or not at all (NewFile).
class SafetensorsWriter {
 public:
  /// @param tensors in the order in which their elements will come
  /// @throws UsageError if the file cannot be made; otherwise as write_header()
  SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors, const Metadata& metadata);

  /// The next elements, any number of them: tensors follow each other without a seam.
  /// @throws UsageError if the disk is full; Error if there are more elements than were declared
  void append(std::span<const float> values);

  /// Waits until the bytes are on the disk, then gives the file its name.
  /// @returns what was written
  /// @throws UsageError if they do not get there; Error if elements are missing
  const NewFile& finish();

 private:
  NewFile file_;
  std::int64_t missing_ = 0;  // elements
};

/// Reads one file: the header at once, tensors when asked for.
class SafetensorsFile {
 public:
  /// @throws UsageError saying what is wrong if the file is missing or malformed in any way
  explicit SafetensorsFile(std::string path);

  /// The texts in the header, by name.
  const Metadata& metadata() const { return header_.metadata; }
  /// As they lie in the file.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }

  /// @throws UsageError if the file has no such tensor or it has another shape
  std::vector<float> read(const TensorInfo& tensor);

  /// The same for a part of it: elements [first, first + to.size()), counted row-major.
  void read(const TensorInfo& tensor, std::int64_t first, std::span<float> to);

 private:
  using Place = std::pair<TensorInfo, std::uint64_t>;  // where it begins in the file

  const Place& find(const TensorInfo& wanted) const;
  void read_bytes(void* to, std::uint64_t bytes);

  std::string path_;
  std::ifstream file_;
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, Place> places_;
};

}  // namespace nanofsdp::store
