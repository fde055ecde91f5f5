#include "train/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "base/context.h"
#include "comm/gloo.h"
#include "comm/launch.h"
#include "comm/local.h"
#include "comm/self.h"
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

}  // namespace

int train_command(const std::vector<std::string>& args) {
  const TrainOptions options = parse_train_options(args);
  const Dataset dataset = load_dataset(options);
  if (!options.out_dir.empty()) prepare_out_dir(options.out_dir);
  const int ranks = options.ranks, threads = threads_per_rank(options);
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
  return comm::launch_processes(ranks, [&](const comm::Rendezvous& rendezvous, int rank) {
    Context context(rank, ranks, threads, options.device);
    train_rank(context, comm::make_gloo(context, rendezvous), options, dataset);
  });
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
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace nanofsdp::train
