#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "gpt/config.h"
#include "store/safetensors.h"

namespace nanofsdp::train {

/// @file
/// @brief What makes a file of weights (store/weights.h) a GPT that can write: its configuration as
/// JSON, and what restores the tokenizer. Both travel in the metadata.

struct WeightsInfo {
  gpt::GPTConfig config;
  std::string chars;  ///< the alphabet of a CharTokenizer; empty: its tokens are of a BpeTokenizer
  std::int64_t iteration = 0;
  double val_loss = 0;
  std::vector<std::string> pieces{};  ///< of the BpeTokenizer; empty: unknown
};

std::shared_ptr<const data::Tokenizer> make_tokenizer(const WeightsInfo& info);

store::Metadata metadata_of(const WeightsInfo& info);

/// What a file says about its model.
/// @throws UsageError if there is none, it is not ours, or its tensors are not that model's
WeightsInfo read_weights_info(const std::string& out_dir);

}  // namespace nanofsdp::train
