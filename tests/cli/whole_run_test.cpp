#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "bench/planned.h"
#include "cli/options.h"
#include "comm/local.h"
#include "support/temporary_directory.h"
#include "train/trainer.h"

// The memory of a run at its largest moment equals the plan, for each class and to the byte: with
// first values or those of a file, evaluations, steps, checkpoints, weights and a sample. It is
// also the memory of its steps; everything else takes no more.

namespace nanofsdp::cli::whole_run_test {
namespace {

constexpr unsigned kRuns = 60;

std::string text() {
  std::string all;
  for (int i = 0; all.size() < 900; ++i) all += std::to_string(i) + " ";
  return all;
}

// The options are the same for each seed, and take all three kinds of recompute in turn.
TrainOptions options_of(unsigned seed, const std::string& out_dir) {
  std::minstd_rand random(seed);
  random.discard(9);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  TrainOptions o;
  o.backend = Backend::local;
  o.recompute = static_cast<gpt::Recompute>(seed % 3);
  o.ranks = 1 + below(4);
  const fsdp::Sharding& sharding = fsdp::kShardings[below(fsdp::kShardings.size())];
  if (!sharding.replicates || o.ranks == 4) o.strategy = sharding.strategy;
  if (sharding_of(o.strategy).replicates) o.shard_size = 2;
  o.layout = below(2) == 0 ? fsdp::LayoutKind::flat : fsdp::LayoutKind::per_parameter;
  if (const int dtype = below(6); dtype < 3)
    o.precision.param_dtype = dtype < 2 ? DType::bfloat16 : DType::float8_e4m3;
  if (below(3) == 0) o.precision.reduce_dtype = DType::bfloat16;
  o.forward_prefetch = below(4);
  o.no_sync = below(3) == 0;
  o.gradient_accumulation_steps = below(2) == 0 ? o.ranks : 1 + below(3);
  const bool shared = o.gradient_accumulation_steps % o.ranks == 0;
  o.batch_size = (shared ? 1 : o.ranks) + below(6);
  o.block_size = 8 << below(3);
  o.n_layer = 1 + below(8);
  o.n_head = 1 << below(3);
  o.n_embd = o.n_head * (4 << below(3));
  o.dropout = below(3) == 0 ? 0.1 : 0;
  o.bias = below(2) == 0;
  o.max_iters = 2;
  o.eval_interval = 1 + below(2);
  o.eval_iters = 1;
  o.sample = below(2) * 2 * o.block_size;
  if (below(3) > 0) o.out_dir = out_dir;
  o.unsharded_blocks = below(3) * below(static_cast<int>(o.n_layer));
  return o;
}

plan::Plan plan_of(const TrainOptions& o, const plan::Run& run, std::int64_t vocab_size) {
  return plan::plan(*bench::planned_gpt(train::config_of(o, vocab_size), o.recompute), run);
}

// Whether the steps alone have the largest memory. They do not if first values, or a look at whole
// weights, take more than the activations of such a small model.
void expect_steps_alone(const TrainOptions& o, plan::Run run, const plan::Plan& whole,
                        std::int64_t vocab_size) {
  run.work.draws = false;
  run.load = run.save = nullptr;
  const plan::Plan steps = plan_of(o, run, vocab_size);
  EXPECT_EQ(steps.total_peak, steps.reserved);
  EXPECT_EQ(whole.reserved, steps.reserved);
  const std::int64_t drawn = 4 * std::max(vocab_size, 4 * o.n_embd) * o.n_embd;
  if (drawn <= steps.of(MemoryClass::activations)) {
    EXPECT_EQ(whole.of(MemoryClass::activations), steps.of(MemoryClass::activations));
    if (run.options.copies()) return;
    EXPECT_EQ(whole.total_peak, steps.total_peak);
  }
}

void run_and_compare(const TrainOptions& o, const char* what) {
  const data::Dataset dataset(text(), "digits", o.block_size);
  const std::int64_t V = dataset.tokenizer().vocab_size();
  comm::launch_threads(o.ranks, 1, [&](Context& context, auto world) {
    train::Trainer trainer(context, std::move(world), o, dataset);
    train::Listener silent;
    trainer.run(silent);
    if (o.sample > 0) trainer.sample(o.sample);
    const plan::Run run = bench::planned_run(o, o, context.rank, 1, Device::simulated_cpu, o.ranks);
    const plan::Plan planned = plan_of(o, run, V);
    for (const MemoryClass c : kMemoryClasses) {
      EXPECT_EQ(context.ledger.count(c).reserved_peak, planned.of(c))
          << what << ", " << name_of(c) << ", " << fsdp::name_of(o.strategy) << ", rank "
          << context.rank << " of " << o.ranks;
    }
    EXPECT_EQ(context.ledger.total_peak(), planned.total_peak) << what;
    expect_steps_alone(o, run, planned, V);
  });
}

TEST(WholeRun, TakesWhatWasPlanned) {
  for (unsigned seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE("options " + std::to_string(seed));
    const testing::TemporaryDirectory directory;
    TrainOptions o = options_of(seed, directory.file(""));
    run_and_compare(o, "from scratch");
    if (!o.saves()) continue;
    o.max_iters = 4;
    o.init_from = "resume";
    run_and_compare(o, "resumed");
    if (o.bias) continue;
    directory.write("config.json", R"({"n_head": )" + std::to_string(o.n_head) + "}");
    o.init_from = "gpt2";
    o.pretrained = directory.file("");
    o.out_dir = "";
    run_and_compare(o, "from weights");
  }
}

// Units may be gathered further ahead than there are units, and all of them may stay.
TEST(WholeRun, TakesWhatWasPlannedHoweverFewTheUnits) {
  TrainOptions o;
  o.backend = Backend::local;
  o.ranks = 2, o.batch_size = 2, o.block_size = 8, o.n_head = 1, o.n_embd = 8;
  o.max_iters = 3, o.eval_interval = 2, o.eval_iters = 1, o.sample = 0;
  for (const int blocks : {1, 3}) {
    for (const int unsharded : {0, 1, blocks}) {
      for (const int ahead : {0, 1, 3}) {
        SCOPED_TRACE(fmt::format("{} blocks, {} unsharded, {} ahead", blocks, unsharded, ahead));
        o.n_layer = blocks, o.unsharded_blocks = unsharded, o.forward_prefetch = ahead;
        run_and_compare(o, "from scratch");
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::cli::whole_run_test
