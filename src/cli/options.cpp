#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/option_kinds.h"
#include "store/checkpoint.h"
#include "train/model_file.h"
#include "train/pretrained.h"

namespace nanofsdp::cli {
namespace {

// The options of train that compare sets itself, or has no use for.
constexpr char kNotCompared[] =
    "strategy zero shard_size backend eval_only eval_interval eval_iters log_interval sample "
    "always_save_checkpoint out_dir init_from pretrained metrics reference trace products explain";

/// Refuses a training at once if no rank can hold it: its part of parameters, gradients and
/// moments, one whole block, and the input of every block.
void check_memory(const TrainOptions& o) {
  const double width = o.n_embd, block = 12 * width * width;
  const double inputs = 4 * width * o.batch_size * o.block_size;
  const double bytes = (16 * block + inputs) * o.n_layer / o.ranks + 4 * block;
  const double memory = 1.0 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  require(bytes <= memory, inputs > 16 * block ? "batch_size" : "n_embd",
          fmt::format("a model for {:.1f} GB of memory", memory / 1e9),
          fmt::format("one of {:.1f} GB a rank, or more", bytes / 1e9),
          "a smaller model or batch, or more ranks");
}

/// Refuses options that do not fit together.
void check_together(const TrainOptions& o) {
  require(o.n_embd % o.n_head == 0, "n_embd", fmt::format("a multiple of --n_head={}", o.n_head),
          o.n_embd);
  check_memory(o);
  const int most_threads = 10'000 / o.ranks;
  require(o.threads <= most_threads, "threads", fmt::format("at most {}", most_threads), o.threads,
          "fewer --ranks allow more");
  data::check_step({o.batch_size, o.gradient_accumulation_steps, o.ranks});
  require(o.reference.empty() || !o.out_dir.empty(), "reference", "--out_dir=DIR beside it",
          "none");
  if (!o.decay_lr || o.eval_only) return;
  const char* hint = "set both, or --decay_lr=False";
  require(o.min_lr <= o.learning_rate, "min_lr",
          fmt::format("at most --learning_rate={}", o.learning_rate), o.min_lr, hint);
  require(o.lr_decay_iters > o.warmup_iters, "lr_decay_iters",
          fmt::format("more than --warmup_iters={}", o.warmup_iters), o.lr_decay_iters, hint);
}

/// A resumed model has the sizes with which it was saved, as in nanoGPT. The same command is given
/// again, and its sizes do not count any more.
void settle_resumed(TrainOptions& o, CommandLine& line) {
  require(!o.out_dir.empty(), "init_from", "--out_dir=DIR beside resume", "none");
  const train::RunState saved =
      train::run_state_of(store::read_manifest(o.out_dir).metadata, o.out_dir);
  const std::string place = "checkpoint '" + store::checkpoint_path(o.out_dir).string() + "': ";
  const auto said = [&](const char* name) {
    const auto found = saved.options.find(name);
    NANOFSDP_REFUSE_IF(found == saved.options.end(), .what = place + "says no --" + name);
    return found->second;
  };
  for (const char* name : {"n_layer", "n_head", "n_embd", "block_size", "bias"}) {
    if (line.given(name) && line.value(name) != said(name))
      note(o.notes, name, line.value(name), "the checkpoint has " + said(name));
    line.set(name, said(name), place);
  }
  for (const char* name : {"dataset", "batch_size", "eval_iters", "seed"})
    if (o.eval_only && line.is_default(name)) line.set(name, said(name), place);
  if (saved.alphabet.empty()) o.vocab_size = saved.vocab_size;
  o.pieces = saved.pieces;
  if (o.pretrained.empty()) return;
  note(o.notes, "pretrained", o.pretrained, "the checkpoint has the weights");
  o.pretrained.clear();
}

/// A pretrained model has the sizes in its files, and other sizes would mean another model. Only
/// the context may be cropped, as in nanoGPT's crop_block_size.
void take_sizes(TrainOptions& o, CommandLine& line) {
  for (const char* name : {"n_layer", "n_head", "n_embd", "bias"})
    require(!line.given(name), name, "nothing: the files of --init_from say it", "a value");
  const train::WeightsInfo info = train::read_model_info(o.pretrained);
  const gpt::GPTConfig& config = info.config;
  if (o.eval_only) line.set_default("block_size", fmt::to_string(config.block_size));
  require(
      o.block_size <= config.block_size, "block_size",
      fmt::format("at most {}, the context of the model in '{}'", config.block_size, o.pretrained),
      o.block_size);
  const std::string place = "pretrained '" + o.pretrained + "': ";
  line.set("n_layer", fmt::to_string(config.n_layer), place);
  line.set("n_head", fmt::to_string(config.n_head), place);
  line.set("n_embd", fmt::to_string(config.n_embd), place);
  line.set("bias", config.bias ? "True" : "False", place);
  o.vocab_size = config.vocab_size;
  o.pieces = info.pieces;
  o.chars = info.chars;
}

/// Finds the model. All options except its sizes are those of this command.
void settle_model(TrainOptions& o, CommandLine& line) {
  if (o.resumes()) return settle_resumed(o, line);
  settle_pretrained(o.init_from, o.pretrained);
  if (!o.pretrained.empty()) take_sizes(o, line);
}

// Notes options that were typed and change nothing in this run.
void note_idle(TrainOptions& o, const CommandLine& line) {
  const bool alone = o.ranks == 1, whole = o.strategy == fsdp::ShardingStrategy::no_shard;
  line.note_idle(o.notes, {{o.eval_only, "evaluates"},
                           {!o.decay_lr, "constant"},
                           {o.out_dir.empty(), "unsaved"},
                           {alone, "alone"},
                           {o.backend != comm::Backend::gloo, "not_gloo"},
                           {alone || whole, "ungathered"},
                           {alone || !sharding_of(o.strategy).reshards_after_forward, "unsharded"},
                           {reduces_once(o), "one_reduction"},
                           {o.init_from != "scratch", "read"},
                           {o.device == Device::cpu, "cpu"},
                           {true, "wandb"}});
}

// Reads the options of train, eval or compare. `o` holds the defaults.
TrainOptions parse_options(TrainOptions o, CommandLine line,
                           const std::vector<std::string>& init_from,
                           const std::vector<std::string>& args) {
  add_training(line, o, init_from);
  line.parse(args, /*completes=*/!o.eval_only);
  o.recipe = line.recipe();
  settle_model(o, line);
  if (o.eval_only) o.gradient_accumulation_steps = o.ranks;  // no step is divided among ranks
  check_together(o);
  settle_text(o, line);
  settle_strategy(o);
  settle_backend(line, o);
  note_idle(o, line);
  // Each rank may have its files in other places. But all ranks must save, or none, and all must
  // trace, or none.
  o.settings = line.settings({"text", "out_dir", "metrics", "trace", "pretrained", "reference"});
  o.settings["saves"] = fmt::format("{}", o.saves());
  o.settings["traces"] = fmt::format("{}", !o.trace.empty());
  return o;
}

}  // namespace

TrainOptions parse_train_options(const std::vector<std::string>& args) {
  return parse_options({}, CommandLine("train"), {"scratch", "resume"}, args);
}

TrainOptions parse_compare_options(const std::vector<std::string>& args) {
  TrainOptions defaults;
  defaults.ranks = 4;
  defaults.max_iters = 100;
  return parse_options(defaults, CommandLine("compare", kNotCompared), {"scratch"}, args);
}

TrainOptions parse_eval_options(const std::vector<std::string>& args) {
  TrainOptions defaults;
  defaults.init_from = "resume";
  defaults.eval_only = true;
  defaults.out_dir = "out";
  TrainOptions o = parse_options(defaults, CommandLine("eval"), {"resume"}, args);
  require(o.eval_only, "eval_only", "True: this is `nanofsdp eval`", "False");
  return o;
}

}  // namespace nanofsdp::cli
