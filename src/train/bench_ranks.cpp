#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "comm/gloo.h"
#include "comm/self.h"
#include "train/bench.h"
#include "train/on_ranks.h"
#include "train/trainer.h"

namespace nanofsdp::train {
namespace {

// A collective over `all`, of which `mine` is this rank's chunk.
struct Collective {
  const char* name;
  Event (*call)(comm::Communicator& world, Stream& stream, Tensor mine, Tensor all);
};
constexpr Collective kCollectives[] = {
    {"all_gather", [](comm::Communicator& world, Stream& stream, Tensor mine,
                      Tensor all) { return world.all_gather(stream, mine, all); }},
    {"reduce_scatter",
     [](comm::Communicator& world, Stream& stream, Tensor mine, Tensor all) {
       return world.reduce_scatter(stream, all, mine, comm::ReduceOp::average);
     }},
    {"all_reduce", [](comm::Communicator& world, Stream& stream, Tensor, Tensor all) {
       return world.all_reduce(stream, all, comm::ReduceOp::average);
     }}};

double time_collective(int ranks, const Collective& collective, std::int64_t bytes) {
  return on_ranks<double>(
      ranks, 1, [=](Context& context, std::unique_ptr<comm::Communicator> world) {
        const std::int64_t W = world->size(), chunk = bytes / 4 / W;
        const Buffer memory(context.ledger, MemoryClass::communication,
                            static_cast<std::size_t>(4 * chunk * W));
        const Tensor all = memory.tensor({chunk * W}),
                     mine = all.slice(world->rank() * chunk, chunk);
        Stream& stream = *context.compute;
        const auto call = [&] { stream.wait(collective.call(*world, stream, mine, all)); };
        // The same number of calls on every rank, whatever their clocks say.
        const int calls = bytes > (1 << 20) ? 20 : 200;
        for (int i = 0; i < calls / 10; ++i) call();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) call();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
               calls;
      });
}

struct Recipe {
  const char* name;
  TrainOptions options;
  int steps;
};

// Mean seconds of a step, without the first few.
double time_steps(const Recipe& recipe, const Dataset& dataset, int ranks, int threads,
                  fsdp::ShardingStrategy strategy) {
  return on_ranks<double>(ranks, threads,
                          [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                            TrainOptions options = recipe.options;
                            options.ranks = ranks;
                            options.strategy = strategy;
                            options.log_interval = 1 << 30;
                            Report silent(options, /*rank=*/1);
                            Trainer trainer(context, std::move(world), options, dataset, silent);
                            const int warm_up = 2;
                            double seconds = 0;
                            for (int i = 0; i < warm_up + recipe.steps; ++i) {
                              const double step = trainer.step(i).seconds;
                              if (i >= warm_up) seconds += step;
                            }
                            return seconds / recipe.steps;
                          });
}

}  // namespace

void bench_collectives(int ranks, int rounds) {
  fmt::print("\ncollectives, {} ranks, gloo on this host\n", ranks);
  std::vector<Candidate> candidates;
  for (const std::int64_t kilobytes : {4, 256, 4096, 40960}) {
    for (const Collective& collective : kCollectives) {
      candidates.push_back(
          {fmt::format("{:<15} {:>6} KB", collective.name, kilobytes),
           [=, &collective] { return time_collective(ranks, collective, kilobytes * 1024); }});
    }
  }
  for (const Timing& t : race(candidates, rounds)) {
    fmt::print("  {}  {:>10.1f} us  ({:.1f} to {:.1f})\n", t.name, t.median * 1e6, t.min * 1e6,
               t.max * 1e6);
  }
}

void bench_steps(int rounds) {
  const TrainOptions small;  // nanoGPT's CPU recipe
  TrainOptions large;
  large.n_layer = large.n_head = 6;
  large.n_embd = 384;
  large.block_size = 256;
  for (const Recipe& recipe : {Recipe{"4 layers x 128, block 64, batch 12", small, 50},
                               Recipe{"6 layers x 384, block 256, batch 12", large, 2}}) {
    const Dataset dataset = load_dataset(recipe.options);
    const auto candidate = [&](const char* name, int ranks, int threads,
                               fsdp::ShardingStrategy strategy) {
      return Candidate{name, [&, ranks, threads, strategy] {
                         return time_steps(recipe, dataset, ranks, threads, strategy);
                       }};
    };
    const std::vector<Timing> timings = race(
        {candidate("1 thread", 1, 1, fsdp::kNoShard), candidate("2 threads", 1, 2, fsdp::kNoShard),
         candidate("2 ranks, no_shard", 2, 1, fsdp::kNoShard),
         candidate("2 ranks, full_shard", 2, 1, fsdp::kFullShard)},
        rounds);
    fmt::print("\ntraining step, {}\n", recipe.name);
    for (const Timing& t : timings) {
      fmt::print("  {:<20} {:>9.2f} ms  ({:.2f} to {:.2f})  {:.2f} of 1 thread\n", t.name,
                 t.median * 1e3, t.min * 1e3, t.max * 1e3, t.median / timings[0].median);
    }
  }
}

}  // namespace nanofsdp::train
