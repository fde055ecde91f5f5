#pragma once

#include <string>

#include "fsdp/fully_shard.h"
#include "train/model_file.h"

namespace nanofsdp::train {

/// @file
/// @brief GPT-2's weights, or others of its form, from a directory as Hugging Face has it:
///
///     model.safetensors  float32, float16 or bfloat16; names as ours, with or without
///                        "transformer.", "module." and "_orig_mod."; or several files in its place
///                        (store/weights_files.h)
///     config.json        with n_head. Sizes that it names must be those of the tensors; a model
///     that
///                        is set to compute otherwise than we do is refused
///     vocab.json         what the tokens say (bpe_tokenizer.h); it may be missing
///
/// GPT-2 was trained with matrices [in, out], which Hugging Face calls Conv1D; ours, as PyTorch's
/// Linear, are [out, in]. They are transposed on the way in, unless the file has them as nanoGPT
/// itself does: c_attn shows which. Like nanoGPT, and unlike Hugging Face, we compute GELU exactly.

/// The model that the directory holds: GPT-2's form, or our own (model_file.h).
/// @throws UsageError if a file is missing, malformed, or not of such a model
WeightsInfo read_pretrained_info(const std::string& directory);

/// Fills a model of that configuration; every rank reads, and keeps what belongs to it. Of the
/// positions the model takes the first, as many as it has.
/// @throws UsageError if the file lacks a parameter, or has it in another shape
void load_pretrained(const std::string& directory, fsdp::ShardedModel& model);

}  // namespace nanofsdp::train
