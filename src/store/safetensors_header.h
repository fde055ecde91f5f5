#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace nanofsdp::store {

/// @file
/// @brief The JSON at the head of a safetensors file (safetensors.h): what lies where.
///
///     {"__metadata__": {"key": "text", ...},
///      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
///
/// Offsets count bytes from the end of the header; the tensors leave no gaps.

/// Texts that a file keeps beside its tensors, by name.
using Metadata = std::map<std::string, std::string>;

/// One tensor of a file, float32.
struct TensorInfo {
  std::string name;                 ///< unique in the file
  std::vector<std::int64_t> shape;  ///< empty: a scalar

  std::int64_t numel() const;  ///< elements; a scalar has one
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// Whether a file has a model's tensors, and no others. A tensor without elements may be missing.
/// @param file names it, for the error
/// @throws UsageError naming those that are missing, surplus, or of another shape
void require_same_tensors(std::span<const TensorInfo> of_model, std::span<const TensorInfo> of_file,
                          const std::string& file);

/// All that the head of a file says.
struct SafetensorsHeader {
  Metadata metadata;                ///< the "__metadata__"; may be empty
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
};

/// The JSON, padded with spaces to a multiple of 8 bytes.
/// @throws Error if two names are equal or one is "__metadata__"
std::string write_header(const SafetensorsHeader& header);

/// The reverse, trusting nothing.
/// @param text the JSON, from a file called `path`, in which `data_bytes` bytes come after it
/// @throws UsageError if it is not such JSON, a tensor is not float32, its bytes do not fit its
///   shape, or the tensors do not fill the data without gaps
SafetensorsHeader parse_header(const std::string& text, std::uint64_t data_bytes,
                               const std::string& path);

}  // namespace nanofsdp::store
