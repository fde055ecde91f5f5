#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/context.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "cli/saved_model.h"
#include "cli/trace_file.h"
#include "comm/run_ranks.h"
#include "launch/launch.h"
#include "ops/matmul.h"
#include "train/trainer.h"

namespace nanofsdp::cli {
namespace {

// A command that ranks run. `parse` turns its arguments into options, and `prepare` turns these
// into the work of a rank.
template <class Options>
struct Command {
  Options (*parse)(const std::vector<std::string>& args);
  // Also reads the files that the rank needs.
  comm::RankBody (*prepare)(const Options& options, int rank);
};

// Only rank 0 writes files, so only rank 0 checks that it can.
comm::RankBody prepare_training(const TrainOptions& options, int rank) {
  const auto dataset =
      std::make_shared<const data::Dataset>(data::load_dataset(options, options.block_size));
  if (rank == 0) require_outputs(options);
  return [options, dataset](Context& context, std::unique_ptr<comm::Communicator> world) {
    if (!options.products.empty()) ops::take_fastest_products(*context.compute, options.products);
    train::Trainer trainer(context, std::move(world), options, *dataset);
    Report report(options, context, *dataset, trainer);
    trainer.run(report);
    if (options.eval_only) return;
    report.finish();
    if (!options.trace.empty()) write_trace(context, trainer.mesh(), options.trace);
    if (options.sample > 0) report.sample(trainer.sample(options.sample));
  };
}

// Runs a command in a process that a launcher has started, so the environment gives the number of
// ranks. It joins the other ranks even if the options are wrong, so that they learn of the error.
template <class Options>
int join(const Command<Options>& command, std::vector<std::string> args,
         launch::Rendezvous rendezvous) {
  args.insert(args.begin(), fmt::format("--ranks={}", rendezvous.size));
  Options options;
  std::exception_ptr wrong;
  try {
    options = command.parse(args);
    rendezvous.patience = options.patience();
  } catch (const UsageError&) {
    wrong = std::current_exception();
  }
  return launch::join(rendezvous, [&](launch::Store& store) {
    if (wrong) std::rethrow_exception(wrong);
    NANOFSDP_REFUSE_IF(
        options.ranks != store.size() || options.backend == Backend::local,
        .what = "--ranks, --backend",
        .expected = fmt::format("{} processes, as the environment has it", store.size()),
        .got = fmt::format("--ranks={} --backend={}", options.ranks, name_of(options.backend)),
        .hint = comm::default_backend() == Backend::gloo
                    ? "leave them out, or unset the launcher's variables"
                    : "this build has no Gloo: unset the launcher's variables");
    comm::run_rank(store, options, command.prepare(options, store.rank()));
  });
}

template <class Options>
int run(const Command<Options>& command, const std::vector<std::string>& args) {
  const auto rendezvous = launch::rendezvous_from([](const char* name) { return getenv(name); });
  if (rendezvous) return join(command, args, *rendezvous);
  const Options options = command.parse(args);
  return comm::run_ranks(options, command.prepare(options, 0));
}

}  // namespace

int train_command(const std::vector<std::string>& args) {
  return run<TrainOptions>({parse_train_options, prepare_training}, args);
}

int eval_command(const std::vector<std::string>& args) {
  return run<TrainOptions>({parse_eval_options, prepare_training}, args);
}

int sample_command(const std::vector<std::string>& args) {
  return run<SampleOptions>({parse_sample_options, prepare_sampling}, args);
}

int export_command(const std::vector<std::string>& args) {
  return run<ExportOptions>({parse_export_options, prepare_export}, args);
}

}  // namespace nanofsdp::cli
