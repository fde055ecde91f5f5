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
  line.add("fused_loss", o.practice.fused_loss);
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
  line.set_default("batch_size", "1");
  line.set_default("gradient_accumulation_steps", fmt::to_string(o.training.ranks));
  if (bare) return;
  const plan::TransformerShape* shape = plan::find_transformer(o.model);
  line.set_default("block_size", fmt::to_string(shape == nullptr ? 1024 : shape->block_size));
  if (shape != nullptr && !shape->is_llama) line.set_default("fused_loss", "True");
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
  line.set("device", gpu ? "cuda" : "cpu", "--machine: ");
  if (!gpu) line.set_default("memory_reserve", "0");
}

// Notes options that were typed and change nothing in this plan.
void note_idle(PlanOptions& o, CommandLine& line) {
  const TrainOptions& t = o.training;
  const plan::TransformerShape* shape = plan::find_transformer(o.model);
  const bool bare = o.parameters > 0, gpu = o.is_gpu(), alone = t.ranks == 1;
  const bool timed = !o.machine.empty(), copies = t.transport == comm::Transport::gloo;
  line.note_idle(o.training.notes,
                 {{bare, "bare"},
                  {shape == nullptr, "ours"},
                  {shape != nullptr && !shape->is_llama, "mpt"},
                  {shape != nullptr, "published"},
                  {o.model != "gpt", "named"},
                  {bare || line.given("model"), "chosen"},
                  {t.recompute == gpt::Recompute::none, "kept"},
                  {!timed, "untimed"},
                  {timed && t.ranks <= o.find_machine().node_ranks, "node"},
                  {!o.sweep.empty(), "sweep"},
                  {gpu, "gpu"},
                  {gpu || t.backend != Backend::gloo, "not_gloo"},
                  {!gpu && !copies, "shared"},
                  {alone, "alone"},
                  {alone || t.strategy == fsdp::ShardingStrategy::no_shard, "ungathered"},
                  {t.gradient_accumulation_steps <= t.ranks, "one_micro_step"},
                  {true, "plan"}});
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

PlanOptions parse_plan_options(const std::vector<std::string>& args) {
  PlanOptions o{.arguments = args};
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
  line.add("memory_reserve", o.reserve, kNoneOrMore);
  line.add("sweep", o.sweep);
  line.add("picture", o.picture);
  line.add("trace", t.trace);
  line.add("json", o.json);
  add_training(line, t, {"scratch", "resume"});
  line.parse(args, /*completes=*/true);
  if (line.is_default("model") && t.init_from.starts_with("gpt2")) o.model = t.init_from;
  require(o.picture.empty() || !o.sweep.empty(), "picture", "a --sweep beside it", "none");
  require(o.network == 0 || o.network >= 1e6, "network_bandwidth",
          "bytes/s, 1e6 or more (400 Gb/s are 50e9); 0: the machine's", o.network);
  o.practice.recompute = t.recompute;
  settle_machine(o, line);
  settle_model(o, line);
  if (o.is_gpu()) line.set_default("param_dtype", "bfloat16");
  settle_text(t, line);
  if (line.is_default("vocab_size")) t.vocab_size = t.text.empty() ? vocabulary_of(t.dataset) : 0;
  settle_strategy(t, line);
  settle_backend(line, t);
  if (t.ranks == 1) t.strategy = fsdp::ShardingStrategy::no_shard;
  note_idle(o, line);
  for (const char* name :
       {"batch_size", "block_size", "gradient_accumulation_steps", "device", "param_dtype",
        "reduce_dtype", "layout", "recompute", "recompute_every", "compile", "fused_norm",
        "fused_loss", "backward_prefetch", "out_dir", "pretrained"}) {
    if (!line.value(name).empty()) o.planned[name] = line.value(name);
  }
  return o;
}

PlanOptions typed_behind(const PlanOptions& o, std::string_view words) {
  Words all = o.arguments;
  for (std::size_t next; words.starts_with(' '); words.remove_prefix(next)) {
    next = std::min(words.find(' ', 1), words.size());
    all.emplace_back(words.substr(1, next - 1));
  }
  PlanOptions other = parse_plan_options(all);
  other.training.vocab_size = o.training.vocab_size;  // perhaps that of a text
  return other;
}

Words combined(const Words& first, const Words& second) {
  Words all;
  for (const std::string& a : first) {
    for (const std::string& b : second) all.push_back(a + b);
  }
  return all;
}

std::string ranks_typed(const TrainOptions& o, std::int64_t ranks) {
  const std::int64_t W = o.ranks, steps = o.gradient_accumulation_steps;
  if (steps == W || steps % W != 0) return fmt::format(" --ranks={}", ranks);
  return fmt::format(" --ranks={} --gradient_accumulation_steps={}", ranks, steps / W * ranks);
}

}  // namespace nanofsdp::cli
