#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <vector>

#include "base/fingerprint.h"
#include "base/transfer.h"
#include "bench/numbers.h"
#include "bench/on_ranks.h"
#include "cli/commands.h"
#include "cli/option_kinds.h"
#include "train/trainer.h"

namespace nanofsdp::cli {
namespace {

// The run of one strategy, as rank 0 sees it.
struct Row {
  std::int64_t numel = 0;    // parameters of the model
  std::int64_t at_rest = 0;  // bytes between steps: parameters, gradients, optimizer
  std::int64_t peak = 0;     // bytes of all classes
  std::int64_t sent = 0;     // bytes that the last step sent
  double seconds = 0;        // mean time of a step, without the first
  double loss = 0;           // loss of the last step
  // The fingerprint of all losses, norms and final weights.
  std::uint64_t fingerprint = nanofsdp::fingerprint("");
};

Row train_row(const TrainOptions& options, const data::Dataset& dataset, Context& context,
              std::unique_ptr<comm::Communicator> world) {
  train::Trainer trainer(context, std::move(world), options, dataset);
  Row row;
  const auto hash = [&](std::span<const std::byte> bytes) {
    row.fingerprint = nanofsdp::fingerprint(bytes, row.fingerprint);
  };
  comm::Traffic before;
  for (std::int64_t i = 0; i < options.max_iters; ++i) {
    before = trainer.mesh().traffic();
    const train::StepResult step = trainer.step(i);
    trainer.require_finite(i, step);
    const double numbers[] = {step.loss, step.grad_norm};
    hash(std::as_bytes(std::span(numbers)));
    if (i > 0) row.seconds += step.seconds / static_cast<double>(options.max_iters - 1);
    row.loss = step.loss;
  }
  // Between two steps all borrowed memory has been given back, except a copy in a lower precision
  // under the stages that keep parameters unsharded.
  row.at_rest = context.ledger.count(MemoryClass::unsharded_parameters).in_use;
  for (const MemoryClass c :
       {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer})
    row.at_rest += context.ledger.count(c).reserved;
  row.peak = context.ledger.total_peak();
  row.sent = (trainer.mesh().traffic() - before).bytes_sent;
  std::vector<float> room;
  trainer.model().summon_full_parameters([&](const nn::Parameter& parameter) {
    hash(std::as_bytes(on_host<float>(*context.compute, parameter.data, room)));
    row.numel += parameter.data.numel();
  });
  return row;
}

}  // namespace

int compare_command(const std::vector<std::string>& args) {
  TrainOptions options = parse_compare_options(args);
  require(options.max_iters >= 2, "max_iters", "2 or more", options.max_iters);
  options.threads = threads_per_rank(options, options.ranks);
  const data::Dataset dataset = data::load_dataset(options, options.block_size);
  fmt::print(
      "{} of {}; {} under each stage of ZeRO\n\n"
      "{:>34}{:>14}{:>14}\n",
      plural(options.ranks, "rank"), plural(options.threads, "thread"),
      plural(options.max_iters, "step"), "bytes a", "sent by a", "peak of a");
  fmt::print("{:>34}{:>14}{:>14}{:>11}{:>10}  {}\n", "parameter", "rank a step", "rank",
             "ms a step", "loss", "losses and weights");
  bool same = true;
  const int k = options.reshard_after_forward;
  std::uint64_t first = 0;
  for (int stage = 0; stage < 4; ++stage) {
    options.strategy = fsdp::kShardings[stage].strategy;
    options.reshard_after_forward = sharding_of(options.strategy).reshards_after_forward ? k : 0;
    const Row row = bench::on_ranks<Row>(
        options, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          return train_row(options, dataset, context, std::move(world));
        });
    fmt::print("zero {} {:<17}{:>10.2f}{:>14}{:>14}{:>11.1f}{:>10.4f}  {:016x}\n", stage,
               name_of(options.strategy),
               static_cast<double>(row.at_rest) / static_cast<double>(row.numel),
               megabytes(row.sent), megabytes(row.peak), 1e3 * row.seconds, row.loss,
               row.fingerprint);
    std::fflush(stdout);
    if (stage == 0) first = row.fingerprint;
    same = same && row.fingerprint == first;
  }
  fmt::print("\n{}\n", same ? "The same bits in every row."
                            : "The rows differ; lessons/bits.md says why they may.");
  return same ? 0 : 1;
}

}  // namespace nanofsdp::cli
