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
/// @brief The weights in a directory, in one file or in several.
///
///     DIR/model.safetensors     all tensors; if there is none, one of these:
///
///     DIR/model.safetensors.index.json                         names the files; no others are read
///     DIR/model-00001-of-00002.safetensors ...                 Hugging Face's: some tensors a file
///     DIR/shard-00001-model-00001-of-00001.safetensors ...     PyTorch's: a file a rank
///     DIR/*.safetensors                                        of any other names
///
/// PyTorch's distributed checkpoint writes the last kind (HuggingFaceStorageWriter), and so do we
/// (weights.h). Such a file has a part of each tensor, a box, under the tensor's name. The file's
/// metadata say where in the tensor the box begins. No file says how large the tensor is: it ends
/// where its last box ends.
///
///     "DCP_SHARDING_INFO": "{\"wte.weight\": {\"saved_offsets\": [22, 0]}, ...}"
///
/// (torch/distributed/checkpoint/hf_storage.py). The tensors of a file without such metadata are
/// whole.

/// The key of these metadata, and the key of an offset inside them.
inline constexpr char kShardingInfo[] = "DCP_SHARDING_INFO", kSavedOffsets[] = "saved_offsets";
/// Our own key beside it: its value says how many files belong together.
inline constexpr char kShards[] = "shards";

/// The part of a tensor that one file has.
struct Box {
  std::size_t file = 0;  ///< index of the file
  TensorInfo saved;      ///< name, shape and dtype in that file
  /// Begin of the box in the tensor, one number for each dimension.
  std::vector<std::int64_t> offsets;
};

/// Reads the headers of all files at once, and tensors on demand.
class WeightsFiles {
 public:
  /// @throws UsageError naming the file that is missing or malformed, or a tensor that the files do
  ///   not fill exactly once
  explicit WeightsFiles(const std::filesystem::path& directory);

  /// The path of the file, or of the directory if there are several files.
  const std::string& path() const { return path_; }
  /// The texts in the header of the first file, by name.
  const Metadata& metadata() const { return files_.front().metadata(); }
  /// Whole tensors, in the order of their names.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// The elements of a whole tensor. One without elements need not be in a file.
  /// @throws UsageError if there is no such tensor or it has another shape
  std::vector<float> read(const TensorInfo& tensor) const;

 private:
  void add(std::size_t file, const std::string& path);
  TensorInfo whole(const std::string& name, const std::vector<Box>& boxes) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Box>> boxes_;  // by tensor
  std::vector<TensorInfo> tensors_;
};

}  // namespace nanofsdp::store
