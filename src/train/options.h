#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/prefetch.h"
#include "fsdp/sharding_strategy.h"

namespace nanofsdp::train {

/// @file
/// @brief What the command line says, checked: `nanofsdp train`, `eval` and `sample`.
///
/// Options bear nanoGPT's names and meanings (its train.py, sample.py), so its README's commands
/// work as they stand, the positional config file included. Settings count in this order, the later
/// one wins: defaults, config file, command line; and the sizes of a model that is resumed, or
/// finetuned, are its own. Whatever is wrong throws one UsageError that names the option, what was
/// expected and what to write instead.

enum class Backend { gloo, nccl, local };  ///< ranks are processes, or threads of one process
enum class InitOrder { nanogpt, fsdp };    ///< whose order of random draws makes the weights

std::string name_of(Backend backend);

/// Options of `nanofsdp train` and `nanofsdp eval`. The defaults are the CPU recipe of nanoGPT's
/// README.
struct TrainOptions {
  // Data and batches.
  std::string dataset = "tales";                 ///< what load_dataset() knows by name
  std::string text;                              ///< a UTF-8 file instead; empty: `dataset`
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
  std::string pretrained;  ///< whose directory says the model's sizes; empty: none (pretrained.h)
  std::int64_t vocab_size = 0;  ///< that the model has already; 0: the data's
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

  // Evaluation and output.
  std::int64_t eval_interval = 250;
  std::int64_t eval_iters = 20;
  std::int64_t log_interval = 10;
  bool eval_only = false;
  std::int64_t sample = 500;           ///< tokens of the text written at the end; 0: none
  bool always_save_checkpoint = true;  ///< at every evaluation, not only at the best so far
  std::string out_dir;                 ///< empty: nothing is saved
  bool saves() const { return !out_dir.empty() && !eval_only; }
  std::string metrics;    ///< a JSON lines file; empty: none
  std::string reference;  ///< another run's, drawn beside this one; empty: none
  std::string trace;      ///< a Chrome trace of a few steps; empty: none
  bool explain = false;

  // Ranks.
  int ranks = 1;
  int threads = 0;   ///< of one rank; 0: see threads_per_rank()
  int timeout = 60;  ///< seconds that a rank waits for a message; 5 times that at the start
  fsdp::ShardingStrategy strategy = fsdp::kFullShard;
  int shard_size = 0;  ///< ranks that share a model under hybrid_shard; 0: all
  fsdp::MixedPrecision precision;
  int forward_prefetch = 1;
  fsdp::BackwardPrefetch backward_prefetch = fsdp::BackwardPrefetch::pre;
  bool no_sync = false;    ///< reduce gradients in the last micro-step only
  bool recompute = false;  ///< keep only the inputs of blocks, compute the rest again
  Backend backend = Backend::gloo;
  Device device = Device::cpu;
  InitOrder init_order = InitOrder::nanogpt;
  std::int64_t seed = 1337;

  /// What all ranks must have alike, "name=value" a line: every option but where files lie, and
  /// whether there are any.
  std::string settings{};

  /// One line for each option that asks for what this program does not do, to be shown at start-up.
  std::vector<std::string> notes{};
};

/// Options of `nanofsdp sample`.
struct SampleOptions {
  std::string out_dir = "out";  ///< where `train --out_dir` saved
  std::string init_from = "resume";
  std::string pretrained;    ///< the directory of another model instead (pretrained.h); empty: none
  std::string vocab;         ///< a vocab.json; empty: the model's own
  std::string start = "\n";  ///< the prompt, or FILE: and where it is
  std::int64_t num_samples = 1;
  std::int64_t max_new_tokens = 500;
  double temperature = 0.8;
  std::int64_t top_k = 200;
  std::int64_t seed = 1337;
  int ranks = 1;
  int threads = 0;   ///< of one rank; 0: see threads_per_rank()
  int timeout = 60;  ///< as in TrainOptions
  Backend backend = Backend::gloo;
  Device device = Device::cpu;
  std::string settings{};  ///< as in TrainOptions
  std::vector<std::string> notes{};
};

/// Thrown when the arguments hold --help or -h: to be printed on stdout, exit code 0.
struct HelpRequested {
  std::string text;
};

/// @param args what follows `nanofsdp train`
/// @throws UsageError, HelpRequested
TrainOptions parse_train_options(const std::vector<std::string>& args);

/// `nanofsdp eval` is `train --eval_only --init_from=resume`, where `--out_dir` is "out" by
/// default. What decides its numbers is by default as in the run that saved: dataset, batch_size,
/// eval_iters, seed, and the model's sizes anyway.
/// @throws UsageError, HelpRequested
TrainOptions parse_eval_options(const std::vector<std::string>& args);

/// @param args what follows `nanofsdp sample`
/// @throws UsageError, HelpRequested
SampleOptions parse_sample_options(const std::vector<std::string>& args);

/// `threads` if it was given, else this machine's cores / the ranks on it, at least 1.
/// @param local_ranks 0: unknown, perhaps all
int threads_per_rank(const TrainOptions& options, int local_ranks);
int threads_per_rank(const SampleOptions& options, int local_ranks);

}  // namespace nanofsdp::train
