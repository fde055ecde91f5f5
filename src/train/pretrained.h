#pragma once

#include <string>

#include "fsdp/fully_shard.h"
#include "gpt/config.h"

namespace nanofsdp::train {

/// @file
/// @brief GPT-2's weights, or others of its form, from a directory as Hugging Face has it:
///
///     model.safetensors  float32; names as ours, with or without "transformer."; or several files
///                        in its place (store/weights_files.h)
///     config.json        of which only n_head is read: the shapes tell the rest
///     vocab.json         what the tokens say (bpe_tokenizer.h); it may be missing
///
/// GPT-2 was trained with matrices [in, out], which Hugging Face calls Conv1D; ours, as PyTorch's
/// Linear, are [out, in]. They are transposed on the way in, unless the file has them as nanoGPT
/// itself does: c_attn shows which. Like nanoGPT, and unlike Hugging Face, we compute GELU exactly.

/// The model that the directory holds.
/// @throws UsageError if a file is missing, malformed, or not of such a model
gpt::GPTConfig read_pretrained_config(const std::string& directory);

/// Fills a model of that configuration; every rank reads, and keeps what belongs to it. Of the
/// positions the model takes the first, as many as it has.
/// @throws UsageError if the file lacks a parameter, or has it in another shape
void load_pretrained(const std::string& directory, fsdp::ShardedModel& model);

}  // namespace nanofsdp::train
