#include "cli/plan_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/planned.h"
#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

// GPT-2's models, which this program can train; it only plans the others.
constexpr std::pair<const char*, gpt::GPTConfig> kGpt2s[] = {
    {"gpt2", {1024, 50'257, 12, 12, 768}},
    {"gpt2-medium", {1024, 50'257, 24, 16, 1024}},
    {"gpt2-large", {1024, 50'257, 36, 20, 1280}},
    {"gpt2-xl", {1024, 50'257, 48, 25, 1600}}};

void add_model(CommandLine& line, PlanOptions& o) {
  std::vector<std::string> names = {"gpt"};
  for (const auto& [name, config] : kGpt2s) names.emplace_back(name);
  for (const plan::TransformerShape& shape : plan::kTransformers) names.emplace_back(shape.name);
  line.group("Model");
  line.choose("model", names, [&o](const std::string& name) { o.model = name; });
  line.add("vocab_size", o.training.vocab_size, kSize);
  line.add("parameters", o.parameters, {0, 1e15, "a number in [0, 1e15)"});
  line.add("unit", o.unit, {0, 1e15, "a number in [0, 1e15)"});
  line.group("How it is run");
  line.add("recompute_every", o.practice.every, kLayers);
  line.add("compile", o.practice.compiled);
  line.add("fused_norm", o.practice.fused_norm);
}

void settle_model(PlanOptions& o, CommandLine& line) {
  const bool bare = o.parameters >= 1;
  require(bare || o.parameters + o.unit == 0, "parameters", "1 or more", o.parameters);
  require(!bare || !line.given("model"), "parameters", "nothing beside --model", o.parameters);
  require(o.unit == 0 || (o.unit >= 1 && o.parameters <= 1000 * o.unit), "unit",
          "1 or more, for at most 1000 units", o.unit);
  if (!bare && o.model == "gpt") return;
  for (const char* name : {"n_layer", "n_head", "n_embd", "bias", "vocab_size"}) {
    require(!line.given(name), name, "nothing beside --model or --parameters", line.value(name));
  }
  TrainOptions& t = o.training;
  if (line.is_default("batch_size")) t.batch_size = 1;
  if (line.is_default("gradient_accumulation_steps")) t.gradient_accumulation_steps = t.ranks;
  if (bare) return;
  const plan::TransformerShape* shape = plan::find_transformer(o.model);
  if (line.is_default("block_size")) t.block_size = shape == nullptr ? 1024 : shape->block_size;
  if (shape == nullptr || !o.is_gpu()) return;
  if (line.is_default("param_dtype")) t.precision.param_dtype = DType::bfloat16;
}

// The vocabulary of a dataset. Files of tokens need not exist yet.
std::int64_t vocabulary_of(const std::string& dataset) {
  return dataset == "tales" ? 52 : dataset == "shakespeare_char" ? 65 : 50304;
}

// A machine decides the device of its ranks.
void settle_machine(PlanOptions& o, CommandLine& line) {
  if (o.machine.empty()) return;
  const bool gpu = plan::find_machine(o.machine).kind == plan::Machine::Kind::gpu;
  require(!line.given("device") || o.is_gpu() == gpu, "device",
          gpu ? "cuda on this --machine" : "cpu on this --machine", line.value("device"));
  o.training.device = gpu ? Device::cuda : Device::cpu;
}

}  // namespace

std::unique_ptr<nn::Module> PlanOptions::make_model() const {
  if (parameters > 0) {
    const auto numel = static_cast<std::int64_t>(parameters),
               each = static_cast<std::int64_t>(unit);
    const std::int64_t units = each > 0 ? numel / each : 0;
    plan::Layer rest{.parameters = {{numel - units * each}}, .width = 1};
    for (std::int64_t i = 0; i < units; ++i) {
      rest.behind.push_back(
          {.name = "units." + std::to_string(i), .is_unit = true, .parameters = {{each}}});
    }
    return std::make_unique<plan::Outline>(rest);
  }
  if (const plan::TransformerShape* shape = plan::find_transformer(model)) {
    plan::Practice how = practice;
    how.dtype = fsdp::compute_dtype(training.precision, training.device);
    return std::make_unique<plan::Outline>(plan::transformer(*shape, how));
  }
  gpt::GPTConfig config = train::config_of(training, training.vocab_size);
  for (const auto& [name, known] : kGpt2s) {
    if (name == model) config = known;
  }
  config.dropout = static_cast<float>(training.dropout);
  config.block_size = std::max(config.block_size, training.block_size);
  return bench::planned_gpt(config, practice.recompute);
}

plan::Machine PlanOptions::find_machine() const {
  plan::Machine found = plan::find_machine(machine);
  if (network > 0) found.network_bandwidth = network;
  return found;
}

PlanOptions parse_plan_options(const std::vector<std::string>& args, const Changes& changes) {
  PlanOptions o{.arguments = args, .changes = changes};
  TrainOptions& t = o.training;
  t.vocab_size = vocabulary_of(t.dataset);  // --help shows this number
  CommandLine line("plan");
  add_model(line, o);
  line.group("Ranks");
  line.add("ranks", t.ranks, kSize);
  choose(line, "device", t.device, {{"cpu", Device::cpu}, {"cuda", Device::cuda}});
  line.group("What is told");
  line.add("machine", o.machine);
  line.add("network_bandwidth", o.network, kNoneOrMore);
  line.add("sweep", o.sweep);
  line.add("picture", o.picture);
  line.add("trace", t.trace);
  line.add("json", o.json);
  add_training(line, t, {"scratch", "resume"});
  line.parse(args, /*completes=*/true);
  for (const auto& [name, value] : changes) line.set(name, value, "planned: ");
  if (line.is_default("model") && t.init_from.starts_with("gpt2")) o.model = t.init_from;
  require(o.picture.empty() || !o.sweep.empty(), "picture", "a --sweep beside it", "none");
  o.practice.recompute = t.recompute;
  settle_machine(o, line);
  settle_model(o, line);
  settle_text(t, line);
  if (line.is_default("vocab_size")) t.vocab_size = t.text.empty() ? vocabulary_of(t.dataset) : 0;
  settle_strategy(t, line);
  settle_backend(line, t);
  if (t.ranks == 1) t.strategy = fsdp::ShardingStrategy::no_shard;
  return o;
}

PlanOptions changed(const PlanOptions& o, const std::string& option, const std::string& value) {
  const TrainOptions& t = o.training;
  if (option == "strategy" && t.ranks == 1) return o;
  Changes changes = o.changes;
  changes.emplace_back(option, value);
  if (option == "ranks") {
    const std::int64_t ranks = std::stoll(value), steps = t.gradient_accumulation_steps;
    if (steps % t.ranks == 0 || ranks % t.ranks == 0)
      changes.emplace_back("gradient_accumulation_steps", fmt::to_string(steps * ranks / t.ranks));
    if (ranks == 1) changes.emplace_back("strategy", "no_shard");
  }
  if (const auto& [name, last] = changes.back(); name == "strategy" && last != "hybrid_shard")
    changes.emplace_back("shard_size", "0");
  PlanOptions other = parse_plan_options(o.arguments, changes);
  other.training.vocab_size = t.vocab_size;  // perhaps that of a text
  return other;
}

}  // namespace nanofsdp::cli
