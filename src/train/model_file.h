#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "data/tokenizer.h"
#include "gpt/config.h"
#include "store/safetensors.h"

namespace nanofsdp::train {

/// @file
/// @brief What the files of a run say beside parameters and moments, in their metadata: a file of
/// weights (store/weights.h) what makes it a GPT that can write, its configuration and its
/// tokenizer; a checkpoint (store/checkpoint.h) where training stands.

/// The name of that in a file of weights.
inline constexpr char kDescription[] = "nanofsdp";

struct WeightsInfo {
  gpt::GPTConfig config;
  std::string chars{};  ///< of a CharTokenizer; empty: its tokens are of a BpeTokenizer
  std::int64_t iteration = 0;
  double val_loss = 0;                ///< of these weights, also if others of the run were better
  std::vector<std::string> pieces{};  ///< of the BpeTokenizer; empty: unknown
};

std::shared_ptr<const data::Tokenizer> make_tokenizer(const WeightsInfo& info);

store::Metadata metadata_of(const WeightsInfo& info);

/// What a file says about its model.
/// @throws UsageError if there is none, it is not ours, or its tensors are not that model's
WeightsInfo read_weights_info(const std::string& out_dir);

/// Where training stands, but for parameters and moments. This is all there is: masks of dropout
/// are functions of the iteration, and the place in the data is the generator's state, for batches
/// are drawn at random.
struct RunState {
  std::int64_t iteration = 0;  ///< steps that were made; the next one has this number
  double best_val_loss = std::numeric_limits<double>::infinity();
  GeneratorState generator;                    ///< of batches
  std::string alphabet;                        ///< of the text; tokens are places in it, or
  std::int64_t vocab_size = 0;                 ///< so many, which are ...
  std::vector<std::string> pieces{};           ///< ... these (bpe_tokenizer.h); empty: unknown
  std::map<std::string, std::string> options;  ///< of the run, as on its command line
};

store::Metadata metadata_of(const RunState& state);

/// The reverse, trusting nothing.
/// @param out_dir of the checkpoint, for messages
/// @throws UsageError if the metadata are not a run's
RunState run_state_of(const store::Metadata& metadata, const std::string& out_dir);

}  // namespace nanofsdp::train
