#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/numbers.h"
#include "cli/option_kinds.h"
#include "data/batch_plan.h"
#include "plan/plan.h"
#include "plan/recipes.h"
#include "plan/shapes.h"
#include "train/loss_meter.h"

namespace nanofsdp::cli {
namespace {

constexpr char kPlanUsage[] =
    R"(nanofsdp plan [CONFIG] [--name=value ...]

What each rank will hold and move in a training, from shapes alone: nothing of the model's size is
allocated. First our own plan, to the byte; then what the papers count, and what that leaves out.
)";

// Beside what training knows.
struct PlanOptions {
  TrainOptions training;
  std::string model = "gpt";
  std::int64_t blocks = 1;  // of a unit
  double parameters = 0;    // in place of a model, 0: none
  double unit = 0;          // of them in a unit, 0: all in the root

  plan::UnitShapes shapes() const;
  plan::Workload workload() const;
};

plan::UnitShapes PlanOptions::shapes() const {
  const auto gpt2 = [](std::int64_t n_layer, std::int64_t n_head, std::int64_t n_embd) {
    return plan::gpt_shapes(
        {.vocab_size = 50'257, .n_layer = n_layer, .n_head = n_head, .n_embd = n_embd});
  };
  if (parameters > 0) {
    return plan::bare_shapes(static_cast<std::int64_t>(parameters),
                             static_cast<std::int64_t>(unit));
  }
  if (model == "gpt2") return gpt2(12, 12, 768);
  if (model == "gpt2-medium") return gpt2(24, 16, 1024);
  if (model == "gpt2-large") return gpt2(36, 20, 1280);
  if (model == "gpt2-xl") return gpt2(48, 25, 1600);
  if (model == "llama-7b") return plan::llama_shapes(plan::kLlama7B);
  if (model == "llama-70b") return plan::llama_shapes(plan::kLlama70B);
  return plan::gpt_shapes(train::config_of(training, training.vocab_size));
}

plan::Workload PlanOptions::workload() const {
  const int ranks = training.ranks, F = training.shard_size > 0 ? training.shard_size : ranks;
  return {
      F, ranks / F,
      data::micro_steps_per_rank(
          {.gradient_accumulation_steps = training.gradient_accumulation_steps, .ranks = ranks}),
      training.device};
}

void settle_model(const PlanOptions& o, CommandLine& line) {
  const bool bare = o.parameters >= 1;
  require(bare || o.parameters + o.unit == 0, "parameters", "1 or more", o.parameters);
  require(!bare || !line.given("model"), "parameters", "nothing beside --model", o.parameters);
  require(o.unit == 0 || (o.unit >= 1 && o.parameters <= 1000 * o.unit), "unit",
          "1 or more, for at most 1000 units", o.unit);
  if (!bare && o.model == "gpt") return;
  for (const char* name : {"n_layer", "n_head", "n_embd", "bias", "block_size", "vocab_size"}) {
    require(!line.given(name), name, "nothing beside --model or --parameters", line.value(name));
  }
}

PlanOptions parse_plan_options(const std::vector<std::string>& args) {
  PlanOptions o;
  TrainOptions& t = o.training;
  t.vocab_size = 52;  // of the text that is built in
  CommandLine line(kPlanUsage);
  line.group("Model");
  line.choose("model",
              "gpt: by the sizes below; or gpt2, gpt2-medium, gpt2-large, gpt2-xl, "
              "llama-7b, llama-70b",
              {"gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "llama-7b", "llama-70b"}, "",
              [&o](const std::string& name) { o.model = name; });
  add_sizes(line, t);
  line.add("vocab_size", "different tokens", t.vocab_size, kSize);
  line.add("blocks", "of a unit", o.blocks, kSize);
  line.add("parameters", "a bare number of them in place of a model", o.parameters,
           {0, 1e15, "a number in [0, 1e15)"});
  line.add("unit", "so many of these a unit, the rest in the root; 0: all there", o.unit,
           {0, 1e15, "a number in [0, 1e15)"});
  line.group("Ranks");
  line.add("ranks", "how many share the work", t.ranks, kSize);
  add_device(line, t.device, /*used_here=*/false);
  add_backend(line, t.backend);
  line.add("gradient_accumulation_steps", "micro-batches of a step, over all ranks",
           t.gradient_accumulation_steps, kSize);
  add_sharding(line, t);
  line.parse(args);
  settle_model(o, line);
  settle_strategy(t, line);
  settle_backend(line, t.device, t.backend);
  if (t.ranks == 1) t.strategy = fsdp::ShardingStrategy::no_shard;
  return o;
}

std::string gigabytes(double bytes) { return fmt::format("{:>10.4g}", bytes / 1e9); }

std::string row(const std::string& name, double bytes) {
  return bytes > 0 ? fmt::format("  {:<60}{}\n", name, gigabytes(bytes)) : "";
}

// The numbers of ZeRO's figure 1; and the terms of which an FSDP lecture adds up Llama 70B.
std::string explain_papers(double numel, double largest, int ranks) {
  std::string text = fmt::format("{:<24}{:>8}{:>10}{:>10}{:>10}{:>10}\n", "papers count, GB a rank",
                                 "bytes", "ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3");
  for (const plan::Recipe& recipe : plan::kRecipes) {
    text += fmt::format("  {:<22}{:>8}", recipe.name, recipe.bytes_a_parameter());
    for (int stage = 0; stage < 4; ++stage) {
      text += gigabytes(numel * recipe.bytes_a_parameter(stage, ranks));
    }
    text += '\n';
  }
  return text + row("a float32 shard: of weights, gradients, each moment", 4 * numel / ranks) +
         row("the largest unit in bfloat16: weights, gradients", 2 * largest);
}

// Where our plan has more than shards.
std::string explain_left_out(const plan::Plan& plan, const plan::UnitLayout& root,
                             const fsdp::Whole& slots, DType computed) {
  const auto of = [&](MemoryClass c) { return static_cast<double>(plan.of(c)); };
  const double parameters = of(MemoryClass::unsharded_parameters),
               gradients = of(MemoryClass::unsharded_gradients);
  const std::size_t element =
      (parameters > 0 ? size_of(computed) : 0) + (gradients > 0 ? size_of(DType::float32) : 0);
  const double whole_root = static_cast<double>(root.padded_numel()) * static_cast<double>(element);
  return "what that leaves out and our plan has, GB a rank\n" +
         row(fmt::format("unsharded parameters, {} slots and the root", slots.parameters),
             parameters) +
         row(fmt::format("unsharded gradients, {} slots and the root", slots.gradients),
             gradients) +
         row("of these the root alone", whole_root) +
         row("communication: rounded copies, sums on their way", of(MemoryClass::communication)) +
         "  padding, which is in every number of our plan\n"
         "  activations, which no stage shards: known after the first step\n";
}

}  // namespace

int plan_command(const std::vector<std::string>& args) {
  PlanOptions o = parse_plan_options(args);
  TrainOptions& t = o.training;
  const plan::UnitShapes units = plan::merged(o.shapes(), o.blocks);
  const int blocks = static_cast<int>(units.size()) - 1;
  t.forward_prefetch = std::min(t.forward_prefetch, blocks);
  const plan::Workload workload = o.workload();
  const fsdp::Options options = train::fsdp_options(t, t.device);
  const auto layouts = plan::lay_out(units, options, workload);
  std::int64_t numel = 0, shard = 0, padding = 0, largest = 0;
  for (const plan::UnitLayout& layout : layouts) {
    numel += layout.total_numel();
    shard += layout.shard_numel();
    padding += layout.padding_numel();
    largest = std::max(largest, layout.total_numel());
  }
  const double moved = static_cast<double>(numel) * static_cast<double>(workload.micro_steps);
  require(moved <= 1e17, "gradient_accumulation_steps", "fewer for so many parameters",
          t.gradient_accumulation_steps);
  const plan::Plan plan = plan::plan_training(
      layouts, options, workload, t.backend == Backend::gloo,
      train::LossMeter::bytes(std::int64_t{workload.shard_size} * workload.replicas, 2));
  fmt::print("model      {} parameters in {} units: {}\n", grouped(numel), layouts.size(),
             unit_sizes(layouts));
  fmt::print("sharding   {}, {} of {}; {} elements a shard, padding {}\n\n",
             fsdp::name_of(t.strategy), plural(workload.replicas, "group"),
             plural(workload.shard_size, "rank"), grouped(shard), grouped(padding));
  fmt::print(
      "{}\n{}\n{}", explain_plan(plan, numel, nullptr, nullptr),
      explain_papers(static_cast<double>(numel), static_cast<double>(largest), workload.shard_size),
      explain_left_out(plan, layouts.back(), fsdp::pool_slots(options, blocks),
                       fsdp::compute_dtype(t.precision, t.device)));
  return 0;
}

}  // namespace nanofsdp::cli
