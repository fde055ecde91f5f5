#pragma once

#include <cstdint>
#include <string>

#include "base/device.h"
#include "fsdp/fully_shard.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/schedule.h"
#include "fsdp/strategy.h"
#include "gpt/config.h"
#include "gpt/gpt.h"

namespace nanofsdp::train {

/// @file
/// @brief What a Trainer has to know. Names, meanings and defaults are those of nanoGPT's train.py
/// and of its README's recipe for a CPU.

enum class InitOrder { nanogpt, fsdp };  ///< whose order of random draws makes the weights

struct TrainerOptions {
  // Batches.
  std::int64_t batch_size = 12;                  ///< rows of a micro-batch, over all ranks
  std::int64_t block_size = 64;                  ///< tokens of a row
  std::int64_t gradient_accumulation_steps = 1;  ///< micro-batches of a step, over all ranks
  std::int64_t tokens_of_step() const {
    return batch_size * block_size * gradient_accumulation_steps;
  }

  // Model.
  std::int64_t n_layer = 4;
  std::int64_t n_head = 4;
  std::int64_t n_embd = 128;
  double dropout = 0;
  bool bias = false;
  std::string init_from = "scratch";  ///< whence: scratch, resume, or gpt2 ...
  std::string pretrained{};  ///< whose directory has the first weights (pretrained.h); empty: none
  bool resumes() const { return init_from == "resume"; }  ///< the last checkpoint in out_dir

  // AdamW and its schedule.
  double learning_rate = 1e-3;
  std::int64_t max_iters = 2000;  ///< steps after the first evaluation
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double grad_clip = 1.0;  ///< 0: off
  bool decay_lr = true;
  std::int64_t warmup_iters = 100;
  std::int64_t lr_decay_iters = 2000;
  double min_lr = 1e-4;

  // Evaluation, and what is saved.
  std::int64_t eval_interval = 250;
  std::int64_t eval_iters = 20;
  bool eval_only = false;
  bool always_save_checkpoint = true;  ///< at every evaluation, not only at the best so far
  std::string out_dir{};               ///< empty: nothing is saved
  bool saves() const { return !out_dir.empty() && !eval_only; }

  // Sharding.
  fsdp::ShardingStrategy strategy = fsdp::ShardingStrategy::full_shard;
  int shard_size = 0;             ///< ranks that share a model under hybrid_shard; 0: all
  int reshard_after_forward = 0;  ///< ranks that keep all of a unit until backward; 0: all
  fsdp::LayoutKind layout = fsdp::LayoutKind::flat;
  fsdp::MixedPrecision precision{};
  int forward_prefetch = 1;
  fsdp::BackwardPrefetch backward_prefetch = fsdp::BackwardPrefetch::pre;
  bool no_sync = false;  ///< reduce gradients in the last micro-step only
  gpt::Recompute recompute = gpt::Recompute::none;
  InitOrder init_order = InitOrder::nanogpt;
  std::int64_t seed = 1337;

  /// What all ranks must have alike, "name=value" a line.
  std::string settings{};
};

/// The model that the options ask for.
gpt::GPTConfig config_of(const TrainerOptions& options, std::int64_t vocab_size);

/// Switches Module::recompute on and off in the model's blocks.
void set_recompute(const gpt::GPT& model, gpt::Recompute what);

/// How the trainer shards: each block is a unit, gradients are summed.
/// @param device that computes
fsdp::Options fsdp_options(const TrainerOptions& options, Device device = Device::cpu);

}  // namespace nanofsdp::train
