#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "launch/launch.h"

namespace nanofsdp::cli {
namespace {

// Only rank 0 writes files, so only rank 0 checks that it can.
comm::RankBody prepare_training(const TrainOptions& options, int rank) {
  const auto dataset =
      std::make_shared<const data::Dataset>(data::load_dataset(options, options.block_size));
  if (rank == 0) require_outputs(options);
  return [options, dataset](Context& context, std::unique_ptr<comm::Communicator> world) {
    train_and_report(context, std::move(world), options, *dataset);
  };
}

// Runs a command in a process that a launcher has started, so the environment gives the number of
// ranks. It joins the other ranks even if the options are wrong, so that they learn of the error.
template <auto parse, auto prepare>
int join(std::vector<std::string> args, launch::Rendezvous rendezvous) {
  args.insert(args.begin(), fmt::format("--ranks={}", rendezvous.size));
  decltype(parse(args)) options;
  std::exception_ptr wrong;
  try {
    options = parse(args);
    rendezvous.patience = options.patience();
  } catch (const UsageError&) {
    wrong = std::current_exception();
  }
  return launch::tell(launch::join(rendezvous, [&](launch::Store& store) {
    if (wrong) std::rethrow_exception(wrong);
    NANOFSDP_REFUSE_IF(
        options.ranks != store.size() || options.backend == Backend::local,
        .what = "--ranks, --backend",
        .expected = fmt::format("{} processes, as the environment has it", store.size()),
        .got = fmt::format("--ranks={} --backend={}", options.ranks, name_of(options.backend)),
        .hint = comm::default_backend() == Backend::gloo
                    ? "leave them out, or unset the launcher's variables"
                    : "this build has no Gloo: unset the launcher's variables");
    comm::run_rank(store, options, prepare(options, store.rank()));
  }));
}

// Runs a command on ranks. `parse` turns its arguments into options. `prepare` reads the files that
// a rank needs, and turns the options into the work of the rank.
template <auto parse, auto prepare>
int run(const std::vector<std::string>& args) {
  const auto rendezvous = launch::rendezvous_from([](const char* name) { return getenv(name); });
  if (rendezvous) return join<parse, prepare>(args, *rendezvous);
  const auto options = parse(args);
  return comm::run_ranks(options, prepare(options, 0));
}

}  // namespace

int run_command(const std::string& name, const std::vector<std::string>& args) {
  const std::map<std::string, int (*)(const std::vector<std::string>& args)> commands = {
      {"train", run<parse_train_options, prepare_training>},
      {"eval", run<parse_eval_options, prepare_training>},
      {"sample", run<parse_sample_options, prepare_sampling>},
      {"export", run<parse_export_options, prepare_export>},
      {"compare", compare_command},
      {"plan", plan_command},
      {"bench", bench_command}};
  const auto found = commands.find(name);
  NANOFSDP_REFUSE_IF(found == commands.end(), .what = "command",
                     .expected = "train, eval, sample, export, compare, plan or bench",
                     .got = "'" + name + "'");
  return found->second(args);
}

}  // namespace nanofsdp::cli
