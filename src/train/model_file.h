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
/// @brief The metadata of a run's files, beside parameters and moments. A file of weights
/// (store/weights.h) says how to make the GPT again: its configuration and its tokenizer. A
/// checkpoint (store/checkpoint.h) says how far the training is.

/// The key of this description in a file of weights.
inline constexpr char kDescription[] = "nanofsdp";

struct WeightsInfo {
  gpt::GPTConfig config;
  /// The characters of a CharTokenizer; empty: tokens are those of a BpeTokenizer.
  std::string chars{};
  std::int64_t iteration = 0;
  /// Validation loss of these weights; earlier weights may have had a lower one.
  double val_loss = 0;
  std::vector<std::string> pieces{};  ///< the pieces of the BpeTokenizer; empty: unknown
};

std::shared_ptr<const data::Tokenizer> make_tokenizer(const WeightsInfo& info);

store::Metadata metadata_of(const WeightsInfo& info);

/// Reads the description of a file's model.
/// @throws UsageError if there is no file, if it is not ours, or if its tensors are not those of
///   the model
WeightsInfo read_weights_info(const std::string& out_dir);

/// The progress of a training, beside parameters and moments. Nothing else is needed: masks of
/// dropout depend on the iteration, and batches are drawn at random, so the state of the generator
/// is the place in the data.
struct RunState {
  std::int64_t iteration = 0;  ///< steps that were made; the next step has this number
  double best_val_loss = std::numeric_limits<double>::infinity();
  GeneratorState generator;  ///< draws batches
  /// The characters of the text, whose places in it are the tokens; empty: ...
  std::string alphabet;
  std::int64_t vocab_size = 0;                 ///< ... the number of tokens
  std::vector<std::string> pieces{};           ///< their texts (bpe_tokenizer.h); empty: unknown
  std::map<std::string, std::string> options;  ///< the options of the run, as on its command line
};

store::Metadata metadata_of(const RunState& state);

/// Reads the state of a run, and checks everything that the metadata say.
/// @param out_dir of the checkpoint, for messages
/// @throws UsageError if the metadata are not a run's
RunState run_state_of(const store::Metadata& metadata, const std::string& out_dir);

}  // namespace nanofsdp::train
