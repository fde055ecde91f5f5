#include "cli/plan_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/planned.h"
#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

void add_model(CommandLine& line, PlanOptions& o) {
  std::vector<std::string> names = {"gpt"};
  for (const plan::TransformerShape& shape : plan::transformers()) names.push_back(shape.name);
  line.choose("model", names, [&o](const std::string& name) { o.model = name; });
  line.add("vocab_size", o.training.vocab_size, kSize);
  line.add("parameters", o.parameters, {0, 1e15, "a number in [0, 1e15)"});
  line.add("unit", o.unit, {0, 1e15, "a number in [0, 1e15)"});
  line.choose("kernels", {"nanofsdp", "pytorch", "pytorch-compiled", "mosaicml"},
              [&o](const std::string& name) { o.kernels = name; });
  line.choose("attention", {"ours", "plain", "flash1", "flash2", "flash3", "cudnn"},
              [&o](const std::string& name) { o.practice.attention = name; });
  line.add("recompute_every", o.practice.every, {1, 1001, "a number from 1 to 1000"});
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
  for (const char* name : {"n_layer", "n_head", "n_embd", "bias", "vocab_size"})
    require(!line.given(name), name, "nothing beside --model or --parameters", line.value(name));
  line.set_default("batch_size", "1");
  line.set_default("gradient_accumulation_steps", fmt::to_string(o.training.ranks));
}

// A model says which set of kernels runs it, and the set says what attention, norm and loss are,
// and whether layers can be divided. After this call a tensor group counts as one rank.
void settle_kernels(PlanOptions& o, CommandLine& line) {
  const auto shape = plan::find_transformer(o.model);
  if (shape) line.set_default("kernels", shape->kernels);
  if (shape) line.set_default("block_size", fmt::to_string(shape->block_size));
  require(o.is_ours() ? !shape || !shape->is_llama : shape.has_value(), "kernels",
          "nanofsdp for a GPT and for --parameters, another for a Llama", o.kernels);
  const int T = o.practice.tensor, W = o.training.ranks;
  require(T == 1 || (!o.is_ours() && W % T + shape->n_kv_head % T + shape->n_inner % T == 0),
          "tensor", "1 with --kernels=nanofsdp, else a divisor of --ranks, heads, the MLP's width",
          T);
  o.training.ranks /= T;
  line.set_defaults("kernels", o.kernels);
}

// The vocabulary of a dataset. Files of tokens need not exist yet.
std::int64_t vocabulary_of(const std::string& dataset) {
  return dataset == "tales" ? 52 : dataset == "shakespeare_char" ? 65 : 50304;
}

// A machine decides the device of its ranks.
void settle_machine(PlanOptions& o, CommandLine& line) {
  if (o.machine.empty()) return;
  const plan::Machine machine = plan::find_machine(o.machine);
  const bool gpu = machine.kind == plan::Machine::Kind::gpu;
  TrainOptions& t = o.training;
  if (t.threads == 0)
    t.threads = std::max(1, static_cast<int>(machine.cores / machine.sharers(t.ranks)));
  require(!line.given("device") || o.is_gpu() == gpu, "device",
          gpu ? "cuda on this --machine" : "cpu on this --machine", line.value("device"));
  line.set("device", gpu ? "cuda" : "cpu", "--machine: ");
  if (!gpu) line.set_default("memory_reserve", "0");
}

// The bytes of "80GB" or "74.5GiB".
double bytes_of(const std::string& size) {
  const std::size_t digits = std::min(size.find_first_not_of(".0123456789"), size.size());
  const std::string unit = size.substr(digits);
  const double bytes = std::atof(size.c_str()) * (unit == "GiB" ? 0x1p30 : 1e9);
  const bool number = bytes > 0 && bytes < 1e24 && size.find('.') == size.rfind('.');
  require(number && (unit == "GB" || unit == "GiB"), "fit", "a size, 80GB or 74.5GiB",
          "'" + size + "'");
  return bytes;
}

// Notes options that were typed and change nothing in this plan.
void note_idle(PlanOptions& o, CommandLine& line) {
  const TrainOptions& t = o.training;
  const auto shape = plan::find_transformer(o.model);
  const bool bare = o.parameters > 0, gpu = o.is_gpu(), alone = t.ranks == 1;
  const bool timed = !o.machine.empty(), copies = t.transport == comm::Transport::gloo;
  line.note_idle(o.training.notes,
                 {{bare, "bare"},
                  {o.is_ours(), "ours"},
                  {!o.is_ours() && !shape->is_llama, "gpt"},
                  {!o.is_ours(), "published"},
                  {o.model != "gpt" || line.given("vocab_size"), "counted"},
                  {bare || line.given("model"), "chosen"},
                  {t.recompute == gpt::Recompute::none, "kept"},
                  {!timed, "untimed"},
                  {timed && o.fit > 0, "fitted"},
                  {timed && o.ranks() <= o.find_machine().node_ranks, "node"},
                  {!o.sweep.empty(), "sweep"},
                  {gpu, "gpu"},
                  {gpu || t.backend != Backend::gloo, "not_gloo"},
                  {!gpu && !copies, "shared"},
                  {alone, "alone"},
                  {alone || t.strategy == fsdp::ShardingStrategy::no_shard, "ungathered"},
                  {alone || !sharding_of(t.strategy).reshards_after_forward, "unsharded"},
                  {reduces_once(t), "one_reduction"},
                  {true, "plan"}});
}

}  // namespace

std::unique_ptr<nn::Module> PlanOptions::make_model() const {
  if (parameters > 0) {
    const auto numel = static_cast<std::int64_t>(parameters),
               each = static_cast<std::int64_t>(unit);
    const std::size_t units = each > 0 ? numel / each : 0;
    const std::vector<plan::Layer> all(units, {.is_unit = true, .parameters = {{each}}});
    return std::make_unique<plan::Outline>(
        plan::Layer{.parameters = {{numel - each * std::ssize(all)}}, .width = 1, .behind = all});
  }
  gpt::GPTConfig config = train::config_of(training, training.vocab_size);
  if (auto shape = plan::find_transformer(model)) {
    shape->block_size =
        is_ours() ? std::max(shape->block_size, training.block_size) : training.block_size;
    if (!is_ours()) return std::make_unique<plan::Outline>(plan::transformer(*shape, practice));
    config = {shape->block_size, shape->vocab_size, shape->n_layer, shape->n_head, shape->n_embd};
  }
  config.dropout = static_cast<float>(training.dropout);
  return bench::planned_gpt(config, practice.recompute);
}

plan::Machine PlanOptions::find_machine() const {
  plan::Machine found = plan::find_machine(machine);
  if (network > 0) found.network_bandwidth = network;
  const double memory = fit > 0 ? fit * found.sharers(ranks()) : found.memory;
  require(memory <= found.memory, "fit", "at most what --machine=" + machine + " has", memory);
  found.memory = memory;
  if (practice.attention == "ours") return found;
  require(found.attentions.contains(practice.attention), "attention",
          "a kernel that this --machine knows", practice.attention);
  found.attention = found.attentions[practice.attention];
  return found;
}

PlanOptions parse_plan_options(const std::vector<std::string>& args) {
  PlanOptions o{.arguments = args};
  TrainOptions& t = o.training;
  t.vocab_size = vocabulary_of(t.dataset);  // --help shows this number
  CommandLine line("plan");
  add_model(line, o);
  line.add("ranks", t.ranks, kSize);
  choose(line, "device", t.device, {{"cpu", Device::cpu}, {"cuda", Device::cuda}});
  line.add("tensor", o.practice.tensor, kSize);
  line.add("machine", o.machine);
  line.add("network_bandwidth", o.network, kNoneOrMore);
  line.add("memory_reserve", o.reserve, {0, 1e9, "a number of GiB in [0, 1e9)"});
  line.add("fit", "", [&o](const std::string& size) { o.fit = bytes_of(size); });
  line.add("sweep", o.sweep);
  line.add("trace", t.trace);
  line.add("json", o.json);
  add_training(line, t, {"scratch"});
  line.parse(args, /*completes=*/true);
  require(t.pretrained.empty(), "pretrained", "nothing: options say the sizes", t.pretrained);
  if (o.parameters == 0 && line.is_default("model") && t.init_from.starts_with("gpt2"))
    o.model = t.init_from;
  require(o.network == 0 || o.network >= 1e6, "network_bandwidth",
          "bytes/s, 1e6 or more (400 Gb/s are 50e9); 0: the machine's", o.network);
  o.practice.recompute = t.recompute;
  settle_machine(o, line);
  settle_kernels(o, line);
  settle_model(o, line);
  if (o.is_gpu()) line.set_default("param_dtype", "bfloat16");
  o.practice.dtype = fsdp::compute_dtype(t.precision, t.device);
  settle_text(t, line);
  if (line.is_default("vocab_size")) t.vocab_size = t.text.empty() ? vocabulary_of(t.dataset) : 0;
  settle_strategy(t);
  settle_backend(line, t);
  if (t.ranks == 1) t.strategy = fsdp::ShardingStrategy::no_shard;
  o.default_steps = line.is_default("gradient_accumulation_steps");
  note_idle(o, line);
  for (const std::string& name : plan::words_in(line.words_of("kernels", "planned")))
    if (!line.value(name).empty()) o.planned[name] = line.value(name);
  return o;
}

PlanOptions typed_behind(const PlanOptions& o, std::string_view words) {
  Words all = o.arguments;
  for (const std::string& word : plan::words_in(words)) all.push_back(word);
  PlanOptions other = parse_plan_options(all);
  other.training.vocab_size = o.training.vocab_size;  // perhaps that of a text
  return other;
}

std::string ranks_typed(const PlanOptions& o, std::int64_t groups) {
  const std::int64_t D = o.training.ranks, steps = o.training.gradient_accumulation_steps;
  const std::string ranks = fmt::format(" --ranks={}", groups * o.practice.tensor);
  if ((o.default_steps && steps == D) || steps % D != 0) return ranks;
  return fmt::format("{} --gradient_accumulation_steps={}", ranks, steps / D * groups);
}

}  // namespace nanofsdp::cli
