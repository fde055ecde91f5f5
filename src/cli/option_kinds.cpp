#include "cli/option_kinds.h"

#include <array>

#include "bench/numbers.h"
#include "data/batch_plan.h"

namespace nanofsdp::cli {
namespace {

// Adds how a training is sharded, and in which dtypes.
void add_sharding(CommandLine& line, TrainOptions& o) {
  std::vector<std::pair<std::string, fsdp::ShardingStrategy>> strategies;
  for (const auto& row : fsdp::kShardings) strategies.emplace_back(row.name, row.strategy);
  choose(line, "strategy", o.strategy, strategies);
  using enum fsdp::ShardingStrategy;
  choose(line, "zero", o.strategy,
         {{"0", no_shard}, {"1", shard_optimizer}, {"2", shard_gradients}, {"3", full_shard}});
  using enum fsdp::LayoutKind;
  choose(line, "layout", o.layout,
         {{"flat", flat}, {"per_parameter", per_parameter}, {"row_aligned", row_aligned}});
  line.add("shard_size", o.shard_size, {0, kSize.end, "0 or more"});
  line.add("reshard_after_forward", o.reshard_after_forward, {0, kSize.end, "0 or more"});
  line.add("unsharded_blocks", o.unsharded_blocks, {0, kSize.end, "0 or more"});
  line.add("forward_prefetch", o.forward_prefetch, kNoneOrMore);
  line.add("no_sync", o.no_sync);
  using enum DType;
  choose(line, "param_dtype", o.precision.param_dtype,
         {{"float32", float32}, {"bfloat16", bfloat16}, {"float8_e4m3", float8_e4m3}});
  choose(line, "reduce_dtype", o.precision.reduce_dtype,
         {{"float32", float32}, {"bfloat16", bfloat16}});
  choose(line, "reduction", o.RanksOptions::reduction,
         {{"ordered", comm::Reduction::ordered}, {"ring", comm::Reduction::ring}});
  using enum fsdp::BackwardPrefetch;
  choose(line, "backward_prefetch", o.backward_prefetch,
         {{"pre", pre}, {"post", post}, {"none", none}});
}

}  // namespace

void note(std::vector<std::string>& notes, const std::string& name, const std::string& value,
          const std::string& why) {
  notes.push_back(fmt::format("--{}={} does nothing here: {}", name, value, why));
}

void add_ignored(CommandLine& line, std::vector<std::string>& notes) {
  const auto add = [&](const char* name, const std::vector<std::string>& words, const char* why) {
    line.choose(name, words, [=, &notes](const std::string& value) {
      if (value != words[0]) note(notes, name, value, why);
    });
  };
  add("compile", {"False", "True"}, "the program is compiled already");
  add("dtype", {"float32", "bfloat16", "float16"}, "the CPU computes in float32");
  add("wandb_log", {"False", "True"}, "see --metrics=FILE");
}

void add_init_from(CommandLine& line, const std::vector<std::string>& own, std::string& init_from,
                   std::string& pretrained) {
  std::vector<std::string> words = own;
  words.insert(words.end(), {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"});
  line.choose("init_from", words, [&](const std::string& value) { init_from = value; });
  line.add("pretrained", pretrained);
}

void settle_pretrained(const std::string& init_from, std::string& pretrained) {
  const bool gpt2 = init_from.starts_with("gpt2");
  require(gpt2 || pretrained.empty(), "pretrained", "nothing without --init_from=gpt2",
          "'" + pretrained + "'");
  if (gpt2 && pretrained.empty()) pretrained = "data/" + init_from;
}

void add_device(CommandLine& line, Device& target) {
  line.choose("device", {"cpu", "cuda"}, [=, &target](const std::string& value) {
    target = value == "cuda" ? Device::cuda : Device::cpu;
    const std::string problem = why_not(target);
    require(problem.empty(), "device", "cpu", value, problem);
  });
}

void settle_backend(CommandLine& line, comm::RanksOptions& o) {
  const bool on_cuda = o.device == Device::cuda;
  if (on_cuda && !line.given("backend")) o.backend = Backend::nccl;
  require(o.backend != (on_cuda ? Backend::gloo : Backend::nccl), "backend",
          on_cuda ? "nccl or local with --device=cuda" : "gloo or local with --device=cpu",
          name_of(o.backend));
  require(o.reduction == comm::Reduction::ordered || o.backend == Backend::nccl, "reduction",
          "ordered with --backend=" + name_of(o.backend), "ring", "the ring is NCCL's");
}

std::string sharding_line(const TrainOptions& o, fsdp::ShardingStrategy strategy,
                          const std::string& units, std::int64_t shard, std::int64_t padding) {
  const std::string start = "sharding   " + fsdp::name_of(strategy);
  if (!sharding_of(strategy).optimizer) return start + ", " + units + "; no shards";
  const int k = o.reshard_after_forward;
  return start + std::array{"", ", per parameter", ", row-aligned"}[static_cast<int>(o.layout)] +
         (k > 0 ? fmt::format(", over {} until backward", plural(k, "rank")) : "") +
         fmt::format(", {}; {} elements a shard, padding {}", units, grouped(shard),
                     grouped(padding));
}

bool reduces_once(const TrainOptions& o) {
  const data::StepShape step{o.batch_size, o.gradient_accumulation_steps, o.ranks};
  return data::micro_steps_per_rank(step) == 1 || !sharding_of(o.strategy).gradients;
}

void settle_strategy(TrainOptions& o) {
  using enum fsdp::ShardingStrategy;
  const fsdp::Sharding& sharding = sharding_of(o.strategy);
  o.no_sync &= !reduces_once(o);  // so units keep no whole gradients
  const int k = o.reshard_after_forward, group = o.shard_size > 0 ? o.shard_size : o.ranks;
  require(k == 0 || sharding.reshards_after_forward, "reshard_after_forward",
          "0 unless --strategy=full_shard or hybrid_shard", k);
  require(k == 0 || (k > 1 && group % k == 0), "reshard_after_forward",
          fmt::format("a divisor of {} ranks, more than 1 (which is shard_grad_op)", group), k);
  require(sharding.replicates || o.shard_size == 0, "shard_size",
          "0 unless --strategy=hybrid_shard", o.shard_size);
  if (!sharding.replicates) return;
  require(o.shard_size > 0 && o.ranks % o.shard_size == 0, "shard_size",
          fmt::format("a divisor of --ranks={}", o.ranks), o.shard_size);
  if (o.shard_size > 1 && o.shard_size < o.ranks) return;
  o.strategy = o.shard_size > 1 ? full_shard : sharding.splits_update ? shard_optimizer : no_shard;
  o.shard_size = 0;
}

void settle_text(TrainOptions& o, CommandLine& line) {
  NANOFSDP_REFUSE_IF(line.given("text") && line.given("dataset"),
                     .what = "--text and --dataset both name a text; give one of them");
  require(!line.given("text") || !o.text.empty(), "text", "the name of a file", "nothing");
  if (line.given("dataset")) o.text.clear();
}

void add_transport(CommandLine& line, comm::Transport& target) {
  using enum comm::Transport;
  choose(line, "transport", target, {{"auto", automatic}, {"shared", shared}, {"gloo", gloo}});
}

void add_ranks(CommandLine& line, comm::RanksOptions& o) {
  o.backend = comm::default_backend();  // unless --backend is given
  line.add("ranks", o.ranks, kProcesses);
  using enum Backend;
  choose(line, "backend", o.backend, {{"gloo", gloo}, {"nccl", nccl}, {"local", local}});
  add_transport(line, o.transport);
  line.add("threads", o.threads, {0, 1025, "0 to 1024"});
  line.add("timeout", o.timeout, {1, 86401, "1 to 86400"});
}

void add_training(CommandLine& line, TrainOptions& o, const std::vector<std::string>& init_from) {
  line.add("dataset", o.dataset);
  line.add("text", o.text);
  line.add("batch_size", o.batch_size, kSize);
  line.add("gradient_accumulation_steps", o.gradient_accumulation_steps, kSize);
  line.add("n_layer", o.n_layer, kLayers);
  line.add("n_head", o.n_head, kSize);
  line.add("n_embd", o.n_embd, kSize);
  line.add("bias", o.bias);
  line.add("block_size", o.block_size, kSize);
  line.add("dropout", o.dropout, kFraction);
  line.add("max_iters", o.max_iters, kNoneOrMore);
  line.add("learning_rate", o.learning_rate, kPositive);
  line.add("weight_decay", o.weight_decay, kNoneOrMore);
  line.add("beta1", o.beta1, kFraction);
  line.add("beta2", o.beta2, kFraction);
  line.add("grad_clip", o.grad_clip, kNoneOrMore);
  line.add("decay_lr", o.decay_lr);
  line.add("warmup_iters", o.warmup_iters, kNoneOrMore);
  line.add("lr_decay_iters", o.lr_decay_iters, kNoneOrMore);
  line.add("min_lr", o.min_lr, kNoneOrMore);
  line.add("eval_interval", o.eval_interval, kCount);
  line.add("eval_iters", o.eval_iters, kCount);
  line.add("eval_only", o.eval_only);
  line.add("sample", o.sample, kNoneOrMore);
  line.add("log_interval", o.log_interval, kCount);
  line.add("out_dir", o.out_dir);
  line.add("always_save_checkpoint", o.always_save_checkpoint);
  add_ranks(line, o);
  add_sharding(line, o);
  using enum gpt::Recompute;
  choose(line, "recompute", o.recompute,
         {{"none", none},
          {"selective", selective},
          {"block", block},
          {"True", block},
          {"False", none}});
  choose(line, "init_order", o.init_order,
         {{"nanogpt", train::InitOrder::nanogpt}, {"fsdp", train::InitOrder::fsdp}});
  line.add("metrics", o.metrics);
  line.add("reference", o.reference);
  line.add("trace", o.trace);
  line.add("products", o.products);
  line.add("explain", o.explain);
  line.add("seed", o.seed, kNoneOrMore);
  add_init_from(line, init_from, o.init_from, o.pretrained);
  add_device(line, o.device);
  add_ignored(line, o.notes);
  line.add("wandb_project", "", [](const std::string&) {});
  line.add("wandb_run_name", "", [](const std::string&) {});
}

}  // namespace nanofsdp::cli
