#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fsdp/sharded_model.h"
#include "gpt/gpt.h"
#include "train/tokenizer.h"

namespace nanofsdp::train {

/// @file
/// @brief A trained model in one file: DIR/model.safetensors.
///
/// Tensors bear nanoGPT's names and shapes; the head's weight is the embedding's and is stored
/// once, as `transformer.wte.weight`. The metadata hold what it takes to rebuild the model: the
/// configuration as JSON, and what restores the tokenizer.

struct WeightsInfo {
  gpt::GPTConfig config;
  std::string chars;  ///< the alphabet of a CharTokenizer; empty: its tokens are of a BpeTokenizer
  std::int64_t iteration = 0;
  double val_loss = 0;
  std::vector<std::string> pieces{};  ///< of the BpeTokenizer; empty: unknown
};

std::shared_ptr<const Tokenizer> make_tokenizer(const WeightsInfo& info);

std::filesystem::path weights_path(const std::string& out_dir);

/// Gathers the model unit by unit; rank 0 writes it. Collective.
/// @throws UsageError if the file cannot be written; the one before it is then still there
void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, const WeightsInfo& info,
                  int rank);

/// What a file says about its model.
/// @throws UsageError if there is none, it is not ours, or its tensors are not that model's
WeightsInfo read_weights_info(const std::string& out_dir);

/// Fills a model of that configuration; every rank reads, and keeps what belongs to it.
/// @throws UsageError if the file lacks a parameter, or has it in another shape
void load_weights(const std::string& out_dir, fsdp::ShardedModel& model);

}  // namespace nanofsdp::train
