#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace nanofsdp::store {

/// @file
/// @brief The weights in a directory, be they in one file or in many.
///
///     DIR/model.safetensors     all tensors; if there is none, one of these:
///
///     DIR/model.safetensors.index.json                         names the files; no others are read
///     DIR/model-00001-of-00002.safetensors ...                 Hugging Face's: some tensors a file
///     DIR/shard-00001-model-00001-of-00001.safetensors ...     PyTorch's: a file a rank
///     DIR/*.safetensors                                        of any other names
///
/// PyTorch's distributed checkpoint writes the last kind (HuggingFaceStorageWriter), and so do we
/// (weights.h). A file has a part of each tensor, a box, under the tensor's name. Where in the
/// tensor the box begins stands in the file's metadata. How large the tensor is stands nowhere: it
/// ends where its last box does.
///
///     "DCP_SHARDING_INFO": "{\"wte.weight\": {\"saved_offsets\": [22, 0]}, ...}"
///
/// (torch/distributed/checkpoint/hf_storage.py). Without such metadata, a file's tensors are whole.

/// The key of those metadata, and the one inside.
inline constexpr char kShardingInfo[] = "DCP_SHARDING_INFO", kSavedOffsets[] = "saved_offsets";
/// A key of ours beside it: how many files belong together.
inline constexpr char kShards[] = "shards";

/// What one file has of a tensor.
struct Box {
  std::size_t file = 0;               ///< which
  TensorInfo saved;                   ///< as it is there
  std::vector<std::int64_t> offsets;  ///< where it begins in the tensor, one a dimension
};

/// Reads them: headers at once, tensors when asked for. All files stay open.
class WeightsFiles {
 public:
  /// @throws UsageError naming the file that is missing or malformed, or the tensor of which the
  ///   files have an element twice or not at all
  explicit WeightsFiles(const std::filesystem::path& directory);

  /// The file, or the directory of many.
  const std::string& path() const { return path_; }
  /// The texts in the header of the first file, by name.
  const Metadata& metadata() const { return files_.front().metadata(); }
  /// Whole tensors, in the order of their names.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// @throws UsageError if there is no such tensor or it has another shape
  std::vector<float> read(const TensorInfo& tensor);

 private:
  void add(std::size_t file, const std::string& path);
  TensorInfo whole(const std::string& name, const std::vector<Box>& boxes) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Box>> boxes_;  // by tensor
  std::vector<TensorInfo> tensors_;
};

}  // namespace nanofsdp::store
