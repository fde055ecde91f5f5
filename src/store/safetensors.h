#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/new_file.h"
#include "store/safetensors_header.h"

namespace nanofsdp::store {

/// @file
/// @brief Reads and writes weights in the safetensors format, which programs around PyTorch read.
/// Elements are float32 in memory; in a file they may be bfloat16 or float16, which are widened
/// when they are read.
///
///     8 bytes     N, little-endian
///     N bytes     JSON that names the tensors (safetensors_header.h); ours have N % 8 == 0
///     the rest    the tensors' elements, little-endian, row-major, without gaps
///
/// Format: huggingface.co/docs/safetensors. Files from elsewhere are not trusted: every length is
/// checked against the file's size before it is used.

/// Writes one file from front to back, so that no caller needs all tensors at once. The file exists
/// under its name as a whole or not at all (NewFile).
class SafetensorsWriter {
 public:
  /// @param tensors in the order in which their elements will come
  /// @throws UsageError if the file cannot be made; otherwise as write_header()
  SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors, const Metadata& metadata);

  /// Writes the next tensor. Elements of a BF16 tensor are rounded to nearest, ties to even.
  /// @throws UsageError if the disk is full; Error if the tensor has another number of elements, or
  ///   no tensor is left
  void append(std::span<const float> values);

  /// Waits until the bytes are on the disk, then gives the file its name.
  /// @returns the file that was written
  /// @throws UsageError if they do not get there; Error if tensors are missing
  const NewFile& finish();

 private:
  NewFile file_;
  std::vector<TensorInfo> tensors_;
  std::size_t next_ = 0;  // the tensor that append() writes next
};

/// Reads one file: the header at once, and tensors on demand. The file is mapped (base/file.h): it
/// needs no descriptor while it is open, and it must not shrink.
class SafetensorsFile {
 public:
  /// @throws UsageError saying what is wrong if the file is missing or malformed in any way
  explicit SafetensorsFile(std::string path);
  SafetensorsFile(SafetensorsFile&&) = default;  // a copy would look into the header of the other

  /// The texts in the header, by name.
  const Metadata& metadata() const { return header_.metadata; }
  /// The tensors in the order in which they lie in the file.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }

  /// @throws UsageError if the file has no such tensor, or it has another shape or a dtype that we
  ///   do not read
  std::vector<float> read(const TensorInfo& tensor) const;

  /// Reads a part of a tensor: elements [first, first + to.size()), counted row-major.
  void read(const TensorInfo& tensor, std::int64_t first, std::span<float> to) const;

 private:
  const TensorInfo& find(const TensorInfo& wanted) const;

  std::string path_;
  MappedFile file_;
  std::span<const std::byte> data_;  // the bytes behind the header
  SafetensorsHeader header_;
  std::map<std::string, const TensorInfo*> named_;  // those of the header
};

}  // namespace nanofsdp::store
