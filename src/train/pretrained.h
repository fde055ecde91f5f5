#pragma once

#include <string>

#include "fsdp/fully_shard.h"
#include "train/model_file.h"

namespace nanofsdp::train {

/// @file
/// @brief Reads the model in a directory: one that a run of ours saved (model_file.h), GPT-2, or
/// another of GPT-2's form. Hugging Face has it in these files:
///
///     model.safetensors  float32, float16 or bfloat16; our names, with or without the prefixes
///                        "transformer.", "module." and "_orig_mod."; several files may take
///                        its place (store/weights_files.h)
///     config.json        with n_head. The sizes that it gives must be those of the tensors. A
///                        model that is set to compute in another way than ours is refused
///     vocab.json         the texts of tokens (bpe_tokenizer.h); it may be missing
///
/// GPT-2 was trained with matrices [in, out], which Hugging Face calls Conv1D. Ours are [out, in],
/// like those of PyTorch's Linear. So the matrices are transposed when they are read, unless the
/// file has them as nanoGPT saves them; the shape of c_attn shows which. Like nanoGPT, and unlike
/// Hugging Face, we compute GELU exactly.

/// Describes the model in the directory.
/// @throws UsageError if a file is missing, malformed, or not of such a model
WeightsInfo read_model_info(const std::string& directory);

/// Fills a model of that configuration. Every rank reads, and keeps the elements that belong to it.
/// If the file has more positions than the model, the model takes the first ones.
/// @throws UsageError if the file lacks a parameter, or has it in another shape
void load_model(const std::string& directory, fsdp::ShardedModel& model);

}  // namespace nanofsdp::train
