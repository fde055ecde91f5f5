#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace nanofsdp::store {

/// @file
/// @brief The JSON at the head of a safetensors file (safetensors.h). It says where each tensor
/// lies.
///
///     {"__metadata__": {"key": "text", ...},
///      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
///
/// Offsets count bytes from the end of the header; the tensors leave no gaps.

/// Refuses a file of weights.
/// @throws UsageError always
[[noreturn]] void malformed(const std::string& path, const std::string& expected,
                            const std::string& got = "something else",
                            const std::string& hint = {});

/// Writes JSON in one line. Bytes that are not UTF-8, perhaps in an option's value, become U+FFFD,
/// because JSON cannot hold them.
template <class Json>
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Texts that a file keeps beside its tensors, by their names.
using Metadata = std::map<std::string, std::string>;

/// The members of a JSON object, each as a text: a string stays as it is, and text_of() writes any
/// other value.
template <class Json>
Metadata texts_of(const Json& object) {
  Metadata texts;
  for (const auto& [name, value] : object.items())
    texts[name] = value.is_string() ? value.template get<std::string>() : text_of(value);
  return texts;
}

/// The most elements that a dimension of a tensor may have in files that we read together. A double
/// holds the number exactly.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// One tensor of a file.
struct TensorInfo {
  std::string name;                 ///< unique in the file
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  /// The format's name of it. We read F32, F16 and BF16, and write F32 and BF16.
  std::string dtype = "F32";
  std::uint64_t begin = 0, end = 0;  ///< bytes of the tensor in the data, as it was read

  std::int64_t numel() const;  ///< number of elements; a scalar has one
  /// Two tensors are equal if their names and shapes are; the dtypes may differ.
  friend bool operator==(const TensorInfo& a, const TensorInfo& b) {
    return a.name == b.name && a.shape == b.shape;
  }
};

/// The format's name of float32 or bfloat16.
inline std::string name_in_file(DType dtype) { return dtype == DType::bfloat16 ? "BF16" : "F32"; }

/// The number of bytes of an element; 0 if we do not know the dtype.
std::uint64_t bytes_of_dtype(const std::string& dtype);

/// Requires that a file has a tensor of this name and shape.
/// @param found the tensor of this name in the file; null if the file has none
/// @param path names the file in the error
/// @throws UsageError if the file has no such tensor
void require_tensor(const TensorInfo& wanted, const TensorInfo* found, const std::string& path);

/// Requires that a file has the tensors of a model, and no others. A tensor without elements may be
/// missing.
/// @param file names the file in the error
/// @throws UsageError naming the tensors that are missing, surplus, or of another shape
void require_same_tensors(std::span<const TensorInfo> of_model, std::span<const TensorInfo> of_file,
                          const std::string& file);

/// The contents of a file's head.
struct SafetensorsHeader {
  Metadata metadata;                ///< the "__metadata__"; may be empty
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
};

/// The largest header that the format allows, in bytes. We neither read nor write a larger one.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

/// Adds the name of a tensor to those of a file.
/// @throws Error if another tensor has it, if it is not UTF-8, or if it is "__metadata__"
void add_name(std::set<std::string>& names, const std::string& name);

/// Writes the JSON, padded with spaces to a multiple of 8 bytes. Bytes of the metadata that are not
/// UTF-8 are replaced (text_of).
/// @throws Error as add_name(); UsageError if the header would be too large
std::string write_header(const SafetensorsHeader& header);

/// Reads the JSON of a header, and checks everything that it says.
/// @param text the JSON, from a file called `path`, in which `data_bytes` bytes come after it
/// @throws UsageError if it is not such JSON, if the bytes of a tensor do not fit its shape, or if
///   the tensors leave a gap in the data
SafetensorsHeader parse_header(const std::string& text, std::uint64_t data_bytes,
                               const std::string& path);

}  // namespace nanofsdp::store
