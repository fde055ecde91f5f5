#include "train/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/context.h"
#include "comm/gloo.h"
#include "comm/local.h"
#include "comm/self.h"
#include "launch/launch.h"
#include "train/files.h"
#include "train/options.h"
#include "train/sampler.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace nanofsdp::train {
namespace {

constexpr std::int64_t kSampleCharacters = 500;

void train_rank(Context& context, std::unique_ptr<comm::Communicator> world,
                const TrainOptions& options, const Dataset& dataset) {
  Report report(options, context.rank);
  Trainer trainer(context, std::move(world), options, dataset, report);
  trainer.run();
  if (!options.eval_only) report.sample(trainer.sample(kSampleCharacters));
}

// For ranks to come: longer than for a message, because somebody has to start them.
std::chrono::seconds patience(const TrainOptions& options) {
  return std::chrono::seconds(5 * options.timeout);
}

// One rank that is a process, among others like it.
void train_process(launch::Store& store, int threads, const TrainOptions& options,
                   const Dataset& dataset) {
  Context context(store.rank(), store.size(), threads, options.device);
  const comm::GlooOptions gloo{.timeout = std::chrono::seconds(options.timeout),
                               .connect_timeout = patience(options)};
  train_rank(context, comm::make_gloo(context, store, gloo), options, dataset);
}

// Reads what the rank needs; rank 0 is the one that will write.
Dataset prepare(const TrainOptions& options, int rank) {
  Dataset dataset = load_dataset(options);
  if (rank == 0) require_outputs(options);
  return dataset;
}

// Others have started the ranks: how many there are is not for the options to say. Joins also with
// wrong options, so that the other ranks hear of what is wrong with them.
int join_training(std::vector<std::string> args, launch::Rendezvous rendezvous) {
  args.insert(args.begin(), fmt::format("--ranks={}", rendezvous.size));
  TrainOptions options;
  std::exception_ptr wrong;
  try {
    options = parse_train_options(args);
    rendezvous.patience = patience(options);
  } catch (const UsageError&) {
    wrong = std::current_exception();
  }
  return launch::join(rendezvous, [&](launch::Store& store) {
    if (wrong) std::rethrow_exception(wrong);
    if (options.ranks != store.size() || options.backend != Backend::gloo) {
      throw UsageError(
          {.what = "--ranks, --backend",
           .expected = fmt::format("{} ranks over gloo, as the environment has it", store.size()),
           .got = fmt::format("--ranks={} --backend={}", options.ranks, name_of(options.backend)),
           .hint = "leave them out, or unset the launcher's variables"});
    }
    train_process(store, threads_per_rank(options, rendezvous.local_size), options,
                  prepare(options, store.rank()));
  });
}

}  // namespace

int train_command(const std::vector<std::string>& args) {
  const auto rendezvous = launch::rendezvous_from([](const char* name) { return getenv(name); });
  if (rendezvous) return join_training(args, *rendezvous);
  const TrainOptions options = parse_train_options(args);
  const Dataset dataset = prepare(options, 0);
  const int ranks = options.ranks, threads = threads_per_rank(options, ranks);
  if (ranks == 1) {
    Context context(0, 1, threads, options.device);
    train_rank(context, comm::make_self(), options, dataset);
    return 0;
  }
  if (options.backend == Backend::local) {
    comm::launch_threads(ranks, threads,
                         [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                           train_rank(context, std::move(world), options, dataset);
                         });
    return 0;
  }
  return launch::launch_processes(
      ranks, [&](launch::Store& store) { train_process(store, threads, options, dataset); });
}

int sample_command(const std::vector<std::string>& args) {
  const SampleOptions options = parse_sample_options(args);
  for (const std::string& note : options.notes) fmt::print(stderr, "note: {}\n", note);
  const WeightsInfo info = read_weights_info(options.out_dir);
  const CharTokenizer tokenizer(info.chars);
  const std::vector<std::int32_t> prompt = tokenizer.encode(options.start);

  Context context(0, 1, options.threads, options.device);
  comm::Mesh mesh(comm::make_self());
  gpt::GPT model(info.config);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = [](const nn::Module& module) {
                               return dynamic_cast<const gpt::Block*>(&module) != nullptr;
                             }});
  load_weights(options.out_dir, sharded);
  nn::Tape tape(context);
  Generator generator(static_cast<std::uint64_t>(options.seed));
  for (std::int64_t i = 0; i < options.num_samples; ++i) {
    const auto tokens = generate(sharded, tape, info.config.block_size, prompt,
                                 {.max_new_tokens = options.max_new_tokens,
                                  .temperature = options.temperature,
                                  .top_k = options.top_k},
                                 generator);
    fmt::print("{}\n---------------\n", tokenizer.decode(tokens));
    flush_stdout();
  }
  return 0;
}

}  // namespace nanofsdp::train
