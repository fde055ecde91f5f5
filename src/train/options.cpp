#include "train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "train/batch_plan.h"
#include "train/command_line.h"

namespace nanofsdp::train {
namespace {

constexpr char kTrainUsage[] =
    R"(nanofsdp train [CONFIG] [--name=value ...]

Trains a GPT with fully sharded data parallelism. Options have nanoGPT's names and meanings; these
are the defaults, its recipe for a CPU on a text that is built in. CONFIG (or --config=CONFIG) is
one of its config files, or train_shakespeare_char, which is built in; options outdo its settings.
)";

constexpr char kSampleUsage[] =
    R"(nanofsdp sample [CONFIG] [--name=value ...]

Lets a trained GPT write. Options have the names and meanings of nanoGPT's sample.py.
)";

Backend parse_backend(const std::string& name) {
  if (name == "gloo") return Backend::gloo;
  if (name == "local") return Backend::local;
  throw UsageError({.what = "--backend",
                    .expected = "gloo (processes) or local (threads)",
                    .got = "'" + name + "'",
                    .hint = name == "nccl" ? "this build has no NCCL; use --backend=gloo" : ""});
}

InitOrder parse_init_order(const std::string& name) {
  if (name == "nanogpt") return InitOrder::nanogpt;
  if (name == "fsdp") return InitOrder::fsdp;
  throw UsageError(
      {.what = "--init_order", .expected = "nanogpt or fsdp", .got = "'" + name + "'"});
}

Device parse_device(const std::string& name) {
  if (name == "cpu") return Device::cpu;
  throw UsageError(
      {.what = "--device",
       .expected = "cpu",
       .got = "'" + name + "'",
       .hint = name.starts_with("cuda") ? "this build has no CUDA; use --device=cpu" : ""});
}

std::string name_of(fsdp::BackwardPrefetch prefetch) {
  return prefetch == fsdp::BackwardPrefetch::pre ? "pre" : "none";
}

/// Throws unless `holds`. Numbers print as they would be typed.
template <class T>
void require(bool holds, const char* name, const char* expected, T got, std::string hint = {}) {
  if (holds) return;
  throw UsageError({.what = std::string("--") + name,
                    .expected = expected,
                    .got = fmt::format("{}", got),
                    .hint = std::move(hint)});
}

/// A size: positive, and such that a product of three does not overflow.
void require_size(const char* name, std::int64_t value) {
  require(value >= 1, name, "at least 1", value);
  require(value <= 1'000'000, name, "at most 1000000", value);
}

void require_count(const char* name, std::int64_t value, std::int64_t least) {
  require(value >= least, name, least == 0 ? "0 or more" : "at least 1", value);
}

/// The options of nanoGPT that this program accepts and does not need.
void note_ignored(bool compile, const std::string& dtype, std::vector<std::string>& notes) {
  if (compile) notes.push_back("--compile=True does nothing here: the program is compiled already");
  if (dtype != "float32") {
    require(dtype == "bfloat16" || dtype == "float16", "dtype", "float32", dtype);
    notes.push_back("--dtype=" + dtype + " does nothing here: the CPU computes in float32");
  }
}

void check_model(const TrainOptions& o) {
  require_size("n_layer", o.n_layer);
  require_size("n_head", o.n_head);
  require_size("n_embd", o.n_embd);
  require(o.n_embd % o.n_head == 0, "n_embd",
          fmt::format("a multiple of --n_head={}", o.n_head).c_str(), o.n_embd);
  require(o.dropout >= 0 && o.dropout < 1, "dropout", "a probability in [0, 1)", o.dropout);
}

void check_optimizer(const TrainOptions& o) {
  require_count("max_iters", o.max_iters, 0);
  require(o.learning_rate > 0, "learning_rate", "more than 0", o.learning_rate);
  require(o.weight_decay >= 0, "weight_decay", "0 or more", o.weight_decay);
  require(o.beta1 >= 0 && o.beta1 < 1, "beta1", "a number in [0, 1)", o.beta1);
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2", "a number in [0, 1)", o.beta2);
  require(o.grad_clip >= 0, "grad_clip", "0 (off) or more", o.grad_clip);
  if (!o.decay_lr) return;
  require_count("warmup_iters", o.warmup_iters, 0);
  require(o.min_lr >= 0 && o.min_lr <= o.learning_rate, "min_lr",
          fmt::format("in [0, --learning_rate={}]", o.learning_rate).c_str(), o.min_lr,
          "set both, or --decay_lr=False");
  require(o.lr_decay_iters > o.warmup_iters, "lr_decay_iters",
          fmt::format("more than --warmup_iters={}", o.warmup_iters).c_str(), o.lr_decay_iters,
          "set both, or --decay_lr=False");
}

void check_ranks(const TrainOptions& o) {
  require_size("batch_size", o.batch_size);
  require_size("block_size", o.block_size);
  require_size("gradient_accumulation_steps", o.gradient_accumulation_steps);
  require_size("ranks", o.ranks);
  require(o.threads >= 0, "threads", "0 (cores / ranks) or more", o.threads);
  require(o.threads <= 1024, "threads", "at most 1024", o.threads);
  require_count("seed", o.seed, 0);
  check_step({o.batch_size, o.gradient_accumulation_steps, o.ranks});
}

void check_rest(const TrainOptions& o) {
  require_count("eval_interval", o.eval_interval, 1);
  require_count("eval_iters", o.eval_iters, 1);
  require_count("log_interval", o.log_interval, 1);
  require(o.init_from == "scratch", "init_from", "scratch", "'" + o.init_from + "'",
          "resuming and pretrained weights are not in this version");
}

/// Which text: --text and --dataset name it in two ways, so only one of them may be typed. A text
/// outdoes the dataset of a config file; a dataset that is typed outdoes the text of one.
void settle_text(TrainOptions& o, const CommandLine& line) {
  if (line.given("text") && line.given("dataset")) {
    throw UsageError({.what = "--text and --dataset both name a text; give one of them"});
  }
  if (line.given("text") && o.text.empty()) {
    throw UsageError({.what = "--text", .expected = "the name of a file", .got = "nothing"});
  }
  if (line.given("dataset")) o.text.clear();
  if (o.text.empty()) {
    require(o.dataset == "tales" || o.dataset == "shakespeare_char", "dataset",
            "tales or shakespeare_char", "'" + o.dataset + "'",
            "--text=FILE for a text of your own");
  }
}

CommandLine train_command_line(TrainOptions& o) {
  CommandLine line(kTrainUsage);
  line.group("Data and batches");
  line.add("dataset", "tales (built in) or shakespeare_char", o.dataset);
  line.add("text", "a text file of your own instead (ours)", o.text);
  line.add("batch_size", "rows of a micro-batch, over all ranks", o.batch_size);
  line.add("block_size", "tokens of a row: the context", o.block_size);
  line.add("gradient_accumulation_steps", "micro-batches of a step, over all ranks",
           o.gradient_accumulation_steps);
  line.group("Model");
  line.add("n_layer", "blocks", o.n_layer);
  line.add("n_head", "attention heads of a block", o.n_head);
  line.add("n_embd", "width, a multiple of n_head", o.n_embd);
  line.add("dropout", "probability of dropping an activation", o.dropout);
  line.add("bias", "biases in Linear and LayerNorm", o.bias);
  line.group("Optimizer (AdamW)");
  line.add("max_iters", "steps", o.max_iters);
  line.add("learning_rate", "the highest", o.learning_rate);
  line.add("weight_decay", "of matrices", o.weight_decay);
  line.add("beta1", "decay of the mean of gradients", o.beta1);
  line.add("beta2", "decay of the mean of their squares", o.beta2);
  line.add("grad_clip", "longest gradient; 0: any length", o.grad_clip);
  line.add("decay_lr", "warm up, then decay by a cosine", o.decay_lr);
  line.add("warmup_iters", "steps of warm-up", o.warmup_iters);
  line.add("lr_decay_iters", "step at which min_lr is reached", o.lr_decay_iters);
  line.add("min_lr", "the last learning rate", o.min_lr);
  line.group("Evaluation and output");
  line.add("eval_interval", "steps between evaluations", o.eval_interval);
  line.add("eval_iters", "batches of an evaluation, for each split", o.eval_iters);
  line.add("eval_only", "evaluate once, do not train", o.eval_only);
  line.add("log_interval", "steps between lines of the log", o.log_interval);
  line.add("out_dir", "where to save the weights; empty: nowhere", o.out_dir);
  line.add("always_save_checkpoint", "save also when the validation loss did not fall",
           o.always_save_checkpoint);
  line.group("Ranks (ours)");
  line.add("ranks", "how many share the work", o.ranks);
  line.add("strategy", "full_shard (FSDP) or no_shard (DDP)", name_of(o.strategy),
           [&o](const std::string& name) { o.strategy = fsdp::parse_strategy(name); });
  line.add(
      "backward_prefetch", "gather the next unit early: none or pre", name_of(o.backward_prefetch),
      [&o](const std::string& name) { o.backward_prefetch = fsdp::parse_backward_prefetch(name); });
  line.add("backend", "gloo (processes) or local (threads)", name_of(o.backend),
           [&o](const std::string& name) { o.backend = parse_backend(name); });
  line.add("threads", "of each rank; 0: cores / ranks", o.threads);
  line.add("init_order", "whose weights a seed gives: nanogpt or fsdp", name_of(o.init_order),
           [&o](const std::string& name) { o.init_order = parse_init_order(name); });
  line.add("metrics", "a file for one JSON object a step", o.metrics);
  line.group("Also nanoGPT's");
  line.add("seed", "of weights, batches and dropout", o.seed);
  line.add("device", "cpu", "cpu",
           [&o](const std::string& name) { o.device = parse_device(name); });
  line.add("init_from", "scratch", o.init_from);
  line.add("dtype", "float32", o.dtype);
  line.add("compile", "no effect", o.compile);
  line.add("wandb_log", "no effect", o.wandb_log);
  line.add("wandb_project", "no effect", o.wandb_project);
  line.add("wandb_run_name", "no effect", o.wandb_run_name);
  return line;
}

}  // namespace

std::string name_of(Backend backend) { return backend == Backend::gloo ? "gloo" : "local"; }
std::string name_of(InitOrder order) { return order == InitOrder::nanogpt ? "nanogpt" : "fsdp"; }

TrainOptions parse_train_options(const std::vector<std::string>& args) {
  TrainOptions o;
  CommandLine line = train_command_line(o);
  line.parse(args);
  check_model(o);
  check_optimizer(o);
  check_ranks(o);
  check_rest(o);
  settle_text(o, line);
  note_ignored(o.compile, o.dtype, o.notes);
  if (o.wandb_log) o.notes.push_back("--wandb_log=True does nothing here; see --metrics=FILE");
  return o;
}

SampleOptions parse_sample_options(const std::vector<std::string>& args) {
  SampleOptions o;
  CommandLine line(kSampleUsage);
  line.group("Options");
  line.add("out_dir", "where `nanofsdp train --out_dir` saved", o.out_dir);
  line.add("start", "what the text begins with", o.start);
  line.add("num_samples", "how many texts", o.num_samples);
  line.add("max_new_tokens", "length of each", o.max_new_tokens);
  line.add("temperature", "below 1: likelier tokens, above 1: wilder ones", o.temperature);
  line.add("top_k", "choose among so many likeliest tokens", o.top_k);
  line.add("seed", "of the choices", o.seed);
  line.add("threads", "of the program (ours)", o.threads);
  line.add("device", "cpu", "cpu",
           [&o](const std::string& name) { o.device = parse_device(name); });
  line.add("init_from", "resume", o.init_from);
  line.add("dtype", "float32", o.dtype);
  line.add("compile", "no effect", o.compile);
  line.parse(args);

  require(!o.out_dir.empty(), "out_dir", "a directory", "nothing");
  require(!o.start.empty(), "start", "at least one character", "nothing");
  require(!o.start.starts_with("FILE:"), "start", "the text itself", "'" + o.start + "'",
          "prompts from files are not in this version");
  require_size("num_samples", o.num_samples);
  require_size("max_new_tokens", o.max_new_tokens);
  require(o.temperature > 0, "temperature", "more than 0", o.temperature);
  require_count("top_k", o.top_k, 1);
  require_count("seed", o.seed, 0);
  require(o.threads >= 1 && o.threads <= 1024, "threads", "1 to 1024", o.threads);
  require(o.init_from == "resume", "init_from", "resume", "'" + o.init_from + "'",
          "pretrained weights are not in this version");
  note_ignored(o.compile, o.dtype, o.notes);
  return o;
}

int threads_per_rank(const TrainOptions& options) {
  if (options.threads > 0) return options.threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());  // 0 if unknown
  return std::max(1, cores / options.ranks);
}

}  // namespace nanofsdp::train
