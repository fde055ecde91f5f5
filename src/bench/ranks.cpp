#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/transfer.h"
#include "bench/bench.h"
#include "bench/on_ranks.h"
#include "comm/group.h"
#include "train/trainer.h"

namespace nanofsdp::bench {
namespace {

// A rank, and the operands of a collective.
struct Chunks {
  comm::Communicator& world;
  Stream& stream;
  Tensor mine, all;  // `mine` is the rank's chunk of `all`
  Tensor others;     // has the length of `all`, and lies in memory that no peer reads
  Tensor of(const Tensor& whole, int rank) const {
    return whole.slice(rank * mine.numel(), mine.numel());
  }
};

// Plain loops over the bytes that a rank receives. They are the limits of the collectives.
void copy_chunks_of_others(const Chunks& c) {
  for (int peer = 0; peer < c.world.size(); ++peer) {
    if (peer == c.world.rank()) continue;
    std::memcpy(c.of(c.all, peer).raw(), c.of(c.others, peer).raw(), c.mine.bytes());
  }
}
void add_chunks_of_others(const Chunks& c) {
  for (int peer = 1; peer < c.world.size(); ++peer)
    add(c.mine.span<float>(), c.of(c.others, peer).span<float>());
}

struct Collective {
  const char* name;
  int passes;         // each rank sends W - 1 chunks this often; 0: a limit, which sends nothing
  const char* limit;  // name of the loop that limits it
  void (*call)(const Chunks& chunks);
};
constexpr Collective kCollectives[] = {
    {"memcpy", 0, "", copy_chunks_of_others},
    {"all_gather", 1, "memcpy",
     [](const Chunks& c) { c.stream.wait(c.world.all_gather(c.stream, c.mine, c.all)); }},
    {"sum", 0, "", add_chunks_of_others},
    {"reduce_scatter", 1, "sum",
     [](const Chunks& c) {
       c.stream.wait(c.world.reduce_scatter(c.stream, c.all, c.mine, comm::ReduceOp::sum));
     }},
    {"all_reduce", 2, "", [](const Chunks& c) {
       c.stream.wait(c.world.all_reduce(c.stream, c.all, comm::ReduceOp::average));
     }}};

comm::RanksOptions ranks_of(const BenchOptions& options, int ranks, int threads) {
  return {.ranks = ranks,
          .threads = threads,
          .backend = options.backend,
          .transport = options.transport};
}

Sample time_collective(const BenchOptions& options, int ranks, const Collective& collective,
                       std::int64_t bytes) {
  const auto body = [=](Context& context, std::unique_ptr<comm::Communicator> world) {
    const std::int64_t W = world->size(), chunk = bytes / 4 / W;
    const Buffer memory = context.buffer(MemoryClass::communication, chunk * W);
    const Buffer elsewhere = context.buffer(MemoryClass::activations, chunk * W);
    Stream& stream = *context.compute;
    const Tensor all = memory.tensor({chunk * W});
    const Chunks chunks{*world, stream, all.slice(world->rank() * chunk, chunk), all,
                        elsewhere.tensor({chunk * W})};
    // The number of calls must be the same on every rank, so it does not depend on clocks.
    const int calls = bytes > (1 << 20) ? 20 : 200;
    for (int i = 0; i < calls / 10; ++i) collective.call(chunks);
    stream.wait(world->barrier(stream));
    const double begin = now_seconds();
    for (int i = 0; i < calls; ++i) collective.call(chunks);
    return Sample{(now_seconds() - begin) / calls};
  };
  return on_ranks<Sample>(ranks_of(options, ranks, 1), body);
}

// A group whose ranks do not communicate, to measure a sharded step without communication. Each
// rank takes its own chunk for the sum, and the chunks of others that it would gather stay
// unchanged.
class Apart final : public comm::Group {
 public:
  using Group::Group;
  void run(Stream& stream, const comm::Operation& operation, Tensor in, Tensor out) override {
    // A gather of numbers that must be equal gives the rank's own number for each rank. They are
    // float64, and parameters are not.
    const bool sums = operation.kind == comm::Operation::Kind::reduce_scatter;
    if (!sums && operation.dtype != DType::float64) return;
    const std::int64_t n = std::min(in.numel(), out.numel());
    const void* x = in.slice(sums ? rank * n : 0, n).raw();
    for (int r = 0; r * n < out.numel(); ++r) copy_within(stream, x, out.slice(r * n, n));
  }
  std::shared_ptr<Group> split(int) override { return std::make_shared<Apart>(rank, size); }
  void abort(const std::string&) noexcept override {}
};

struct Timed {
  const char* name;
  std::int64_t layers, heads, width, block, batch, vocabulary;  // 0: the vocabulary of the tales
  int steps;
};
constexpr Timed kTimed[] = {{"4 x 128", 4, 4, 128, 64, 12, 0, 50},
                            {"6 x 384", 6, 6, 384, 256, 12, 0, 2},
                            {"124M", 12, 12, 768, 64, 4, 50304, 2}};

// The ranks that make a step.
struct Crew {
  const char* name;
  int ranks, threads;
  fsdp::ShardingStrategy strategy;
  bool apart = false;  // whether ranks do not communicate, for a comparison with ranks that do
  fsdp::LayoutKind layout = fsdp::LayoutKind::flat;
};

using enum fsdp::ShardingStrategy;
constexpr auto kPerParameter = fsdp::LayoutKind::per_parameter;
constexpr Crew kCrews[] = {
    {"1 thread", 1, 1, no_shard},
    {"2 threads", 1, 2, no_shard},
    {"2 ranks, apart", 2, 1, full_shard, true},
    {"2 ranks, apart, per parameter", 2, 1, full_shard, true, kPerParameter},
    {"2 ranks, no_shard", 2, 1, no_shard},
    {"2 ranks, full_shard", 2, 1, full_shard},
    {"2 ranks, full_shard, per parameter", 2, 1, full_shard, false, kPerParameter},
    {"4 ranks, no_shard", 4, 1, no_shard},
    {"4 ranks, full_shard", 4, 1, full_shard}};

// A text of this number of different characters, with three bytes each.
std::string text_of(std::int64_t vocabulary) {
  std::string text;
  for (std::int64_t i = 0; i < 4 * vocabulary; ++i) {
    // 7919 is a prime, and divides no vocabulary.
    const std::int64_t c = 0x800 + i * 7919 % vocabulary;
    text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
             static_cast<char>(0x80 | (c & 0x3f))};
  }
  return text;
}

// Seconds of a training step: the mean of `steps` steps after the first two.
Sample time_steps(const BenchOptions& options, const Crew& crew,
                  const train::TrainerOptions& training, const data::Dataset& dataset, int steps) {
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    if (crew.apart) world = comm::on_streams(std::make_shared<Apart>(context.rank, crew.ranks));
    train::Trainer trainer(context, std::move(world), training, dataset);
    Sample sample;
    for (int i = -2; i < steps; ++i) {
      const double seconds = trainer.step(i + 2).seconds;
      if (i >= 0) sample.seconds += seconds / steps;
    }
    sample.bytes = context.ledger.total_peak();
    return sample;
  };
  return on_ranks<Sample>(ranks_of(options, crew.ranks, crew.threads), body);
}

}  // namespace

Rates bench_collectives(const BenchOptions& options, int ranks) {
  std::vector<Candidate> candidates;
  for (const std::int64_t kilobytes : {4, 256, 4096, 40960}) {
    for (const Collective& collective : kCollectives) {
      const auto name = [&](const char* what) { return fmt::format("{} {} KB", what, kilobytes); };
      const std::int64_t chunks = kilobytes * 1024 / 4 / ranks * 4 * (ranks - 1);
      const std::int64_t sent = collective.passes * chunks;
      candidates.push_back(
          {name(collective.name) + (sent > 0 ? fmt::format(", {} bytes sent", sent) : ""),
           1e-9 * static_cast<double>(std::max(sent, chunks)), "GB/s", name(collective.limit),
           [=, &options, &collective] {
             return time_collective(options, ranks, collective, kilobytes * 1024);
           }});
    }
  }
  return print_race(options,
                    fmt::format("collectives, {} ranks on this host, congestion control {}", ranks,
                                congestion_control()),
                    std::move(candidates));
}

Rates bench_steps(const BenchOptions& options) {
  Rates all;
  for (const Timed& timed : kTimed) {
    train::TrainerOptions settings;
    settings.batch_size = timed.batch, settings.block_size = timed.block;
    settings.n_layer = timed.layers, settings.n_head = timed.heads, settings.n_embd = timed.width;
    const data::Dataset dataset =
        timed.vocabulary == 0 ? data::load_dataset({}, timed.block)
                              : data::Dataset(text_of(timed.vocabulary), "characters", timed.block);
    std::vector<Candidate> candidates;
    for (const Crew& crew : kCrews) {
      settings.strategy = crew.strategy;
      settings.layout = crew.layout;
      candidates.push_back({crew.name, static_cast<double>(timed.batch * timed.block), "tokens/s",
                            kCrews[0].name, [=, &options, &timed, &crew, &dataset] {
                              return time_steps(options, crew, settings, dataset, timed.steps);
                            }});
    }
    all.merge(print_race(
        options,
        fmt::format("training step, batch {}, block {}, {}", timed.batch, timed.block, timed.name),
        std::move(candidates)));
  }
  return all;
}

}  // namespace nanofsdp::bench
