#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/safetensors.h"
#include "support/temporary_directory.h"

// A small GPT-2 in Hugging Face's files, which tests/parity/gpt2.py wrote with PyTorch.

namespace nanofsdp::train {

inline const std::string kSmall = NANOFSDP_SOURCE_DIR "/tests/parity/gpt2";

// A copy of the small model. `change` may rename or drop its tensors.
struct Stored {
  store::TensorInfo info;
  std::vector<float> values;
};
template <class Change>
std::string rewritten(const testing::TemporaryDirectory& directory, const Change& change) {
  std::filesystem::copy(kSmall, directory.file("copy"));
  store::SafetensorsFile file(kSmall + "/model.safetensors");
  std::vector<Stored> kept;
  for (const store::TensorInfo& info : file.tensors()) {
    Stored tensor{info, file.read(info)};
    if (change(tensor)) kept.push_back(tensor);
  }
  std::vector<store::TensorInfo> infos;
  for (const Stored& tensor : kept) infos.push_back(tensor.info);
  store::SafetensorsWriter writer(directory.file("copy/model.safetensors"), infos, {});
  for (const Stored& tensor : kept) writer.append(tensor.values);
  writer.finish();
  return directory.file("copy");
}

}  // namespace nanofsdp::train
