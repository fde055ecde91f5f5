#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/device.h"
#include "fsdp/options.h"
#include "gpt/config.h"
#include "gpt/gpt.h"

namespace nanofsdp::train {

/// @file
/// @brief The options of a Trainer. Names, meanings and defaults are those of nanoGPT's train.py
/// and of its README's recipe for a CPU.

/// The program whose order of random draws makes the weights.
enum class InitOrder { nanogpt, fsdp };

///
/// Those of sharding are the options of fully_shard(). The trainer decides three of these itself:
/// `reduction`, `alignment` and `wrap_policy` (fsdp_options()).
struct TrainerOptions : fsdp::Options {
  // The options of batches.
  std::int64_t batch_size = 12;                  ///< rows of a micro-batch, over all ranks
  std::int64_t block_size = 64;                  ///< tokens of a row
  std::int64_t gradient_accumulation_steps = 1;  ///< micro-batches of a step, over all ranks
  std::int64_t tokens_of_step() const {
    return batch_size * block_size * gradient_accumulation_steps;
  }

  // The options of the model.
  std::int64_t n_layer = 4;
  std::int64_t n_head = 4;
  std::int64_t n_embd = 128;
  double dropout = 0;
  bool bias = false;
  std::string init_from = "scratch";  ///< the first weights: scratch, resume, or gpt2 ...
  std::string pretrained{};  ///< directory with the first weights (pretrained.h); empty: none
  /// Whether the run goes on from the last checkpoint in out_dir.
  bool resumes() const { return init_from == "resume"; }

  // The options of AdamW and of its schedule.
  double learning_rate = 1e-3;
  std::int64_t max_iters = 2000;  ///< steps after the first evaluation
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double grad_clip = 1.0;  ///< largest gradient norm; 0: gradients are not clipped
  bool decay_lr = true;
  std::int64_t warmup_iters = 100;
  std::int64_t lr_decay_iters = 2000;
  double min_lr = 1e-4;

  // The options of evaluations and of the files that they save.
  std::int64_t eval_interval = 250;
  std::int64_t eval_iters = 20;
  bool eval_only = false;
  /// Save at every evaluation, not only if the loss has fallen.
  bool always_save_checkpoint = true;
  std::string out_dir{};  ///< empty: the run saves nothing
  bool saves() const { return !out_dir.empty() && !eval_only; }

  // The options of sharding that fully_shard() does not have.
  int shard_size = 0;  ///< ranks that share a model under hybrid_shard; 0: all
  /// Ranks that together keep a unit until backward; 0: the whole group.
  int reshard_after_forward = 0;
  int unsharded_blocks = 0;  ///< the number of last blocks that stay unsharded until backward
  gpt::Recompute recompute = gpt::Recompute::none;
  InitOrder init_order = InitOrder::nanogpt;
  std::int64_t seed = 1337;

  /// The settings that must be equal on all ranks, by name.
  std::map<std::string, std::string> settings{};
};

/// The model that the options ask for.
gpt::GPTConfig config_of(const TrainerOptions& options, std::int64_t vocab_size);

/// The learning rate of each step: a warm-up, half a wave of cosine, and a floor.
///
///     it < w         lr (it + 1) / (w + 1)
///     w <= it <= d   min + (lr - min) (1 + cos(pi (it - w) / (d - w))) / 2
///     it > d         min
///
/// with w = warmup_iters, d = lr_decay_iters: nanoGPT's get_lr (train.py, commit 3adf61e). If
/// decay_lr is off, the rate is always `learning_rate`.
/// @param it steps made before this one
double learning_rate_at(const TrainerOptions& options, std::int64_t it);

/// Switches Module::recompute on and off in the model's blocks.
void set_recompute(const gpt::GPT& model, gpt::Recompute what);

/// The options by which the trainer shards: each block is a unit, and gradients are summed.
/// @param device the device that computes
fsdp::Options fsdp_options(const TrainerOptions& options, Device device = Device::cpu);

}  // namespace nanofsdp::train
