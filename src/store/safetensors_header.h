#pragma once

#include <cstdint>
#include <map>
#include <set>
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

/// @throws UsageError of a file of weights
[[noreturn]] void malformed(const std::string& path, const std::string& expected,
                            const std::string& got = "something else",
                            const std::string& hint = {});

/// JSON in one line. What is not UTF-8, an option's value perhaps, is replaced by U+FFFD: JSON
/// cannot hold it.
template <class Json>
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Texts that a file keeps beside its tensors, by name.
using Metadata = std::map<std::string, std::string>;

/// One tensor of a file.
struct TensorInfo {
  std::string name;                 ///< unique in the file
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::string dtype = "F32";  ///< as the format calls it. We read F32, F16 and BF16, and write
                              ///< F32 and BF16

  std::int64_t numel() const;  ///< elements; a scalar has one
  /// Of one name and shape, whatever the dtype.
  friend bool operator==(const TensorInfo& a, const TensorInfo& b) {
    return a.name == b.name && a.shape == b.shape;
  }
};

/// Bytes of an element; 0: a dtype that we do not know.
std::uint64_t bytes_of_dtype(const std::string& dtype);

/// Whether a file has a model's tensors, and no others. A tensor without elements may be missing.
/// @param file names it, for the error
/// @throws UsageError naming those that are missing, surplus, or of another shape
void require_same_tensors(std::span<const TensorInfo> of_model, std::span<const TensorInfo> of_file,
                          const std::string& file);

/// All that the head of a file says.
struct SafetensorsHeader {
  Metadata metadata;                    ///< the "__metadata__"; may be empty
  std::vector<TensorInfo> tensors;      ///< in the order of their bytes
  std::vector<std::uint64_t> begins{};  ///< where in the data each begins, as read
};

/// Bytes that a header may have, by the format's own rule: no larger one is read, and none is
/// written.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

/// Adds the name of a tensor to those of a file.
/// @throws Error if another tensor has it, if it is not UTF-8, or if it is "__metadata__"
void add_name(std::set<std::string>& names, const std::string& name);

/// The JSON, padded with spaces to a multiple of 8 bytes. What is not UTF-8 in the metadata is
/// replaced (text_of).
/// @throws Error as add_name(); UsageError if it would be too large
std::string write_header(const SafetensorsHeader& header);

/// The reverse, trusting nothing.
/// @param text the JSON, from a file called `path`, in which `data_bytes` bytes come after it
/// @throws UsageError if it is not such JSON, a tensor's bytes do not fit its shape, or the tensors
///   do not fill the data without gaps
SafetensorsHeader parse_header(const std::string& text, std::uint64_t data_bytes,
                               const std::string& path);

}  // namespace nanofsdp::store
