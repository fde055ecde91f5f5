#include <algorithm>
#include <chrono>
#include <thread>

#include "mystery.h"
#include "run.h"

// Mysteries 13 to 15 are about counts: of calls, of bytes and of tokens.

namespace lesson::mystery {
namespace {

constexpr int kRanks = 4;

// This is the user's code, from the time when each rank had a whole copy of the model.
struct WholeCopy : nn::Module {
  bool adds_up_ranks = true;
};
void postpone_sums(nn::Module& model, bool postpone) {
  if (auto* copy = dynamic_cast<WholeCopy*>(&model)) copy->adds_up_ranks = !postpone;
}

std::string accumulates_for_nothing() {
  Table table;
  int column = 0;
  for (const int micro_batches : {1, 4}) {
    comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
      Rank rank(context, std::move(world), small(), {.wrap_policy = is_block});
      rank.sharded.zero_grad();
      for (int m = 0; m < micro_batches; ++m) {
        postpone_sums(rank.model, m + 1 < micro_batches);
        rank.forward_backward(kRanks * m + context.rank, 1, 32 * micro_batches);
      }
      if (context.rank != 0) return;
      const comm::Traffic traffic = rank.mesh.reduce().traffic();
      table.put("rows of a rank", column, fmt::format("{}", micro_batches));
      table.put("reduce-scatters", column, fmt::format("{}", traffic.reduce_scatters));
      table.put("bytes of gradients sent", column, fmt::format("{}", traffic.bytes_sent));
      table.put("the same, for each row", column,
                fmt::format("{}", traffic.bytes_sent / micro_batches));
    });
    ++column;
  }
  return table.text("one step of rank 0", {"1 micro-batch", "4"}, table.order());
}

// The elements that a file has of each unit, with the padding.
constexpr int kLoaders = 8;
using File = std::vector<std::vector<float>>;

File write_file(Rank& rank) {
  File file;
  for (fsdp::Unit& unit : rank.sharded.units()) {
    const Tensor shard = unit.rows().front().parameter_shard();
    auto& whole = file.emplace_back(shard.numel() * kLoaders);
    rank.mesh.world().all_gather(rank.sharded.stream(), shard,
                                 Tensor(whole.data(), {shard.numel() * kLoaders}));
    std::ranges::fill(shard.span<float>(), 0.0f);
  }
  return file;
}

// This is the user's code. Rank 0 sends unit after unit, and every rank keeps its own part.
void load(Rank& rank, const File& file) {
  Context& context = rank.context;
  const auto on_device = [&](const std::vector<float>& values) {
    Buffer buffer(context.ledger, MemoryClass::communication, values.size() * sizeof(float));
    if (context.rank == 0) {
      std::ranges::copy(values, buffer.tensor({std::ssize(values)}).template span<float>().begin());
    }
    return buffer;
  };
  std::vector<Buffer> units;
  for (const auto& values : file) {
    if (context.rank == 0) units.push_back(on_device(values));
  }
  std::size_t u = 0;
  for (fsdp::Unit& unit : rank.sharded.units()) {
    const Buffer own = context.rank == 0 ? std::move(units[u]) : on_device(file[u]);
    const Tensor whole = own.tensor({std::ssize(file[u++])});
    rank.mesh.world().broadcast(rank.sharded.stream(), whole, 0);
    const Tensor shard = unit.rows().front().parameter_shard();
    std::ranges::copy(whole.span<float>().subspan(shard.numel() * context.rank, shard.numel()),
                      shard.span<float>().begin());
  }
}

std::string peak_of_loading() {
  Table table;
  for (const bool loads : {true, false}) {
    comm::launch_threads(kLoaders, 1, [&](Context& context, auto world) {
      Rank rank(context, std::move(world), small(12), {.wrap_policy = is_block});
      const auto peak = [&](MemoryClass kind) { return context.ledger.count(kind).reserved_peak; };
      const auto show = [&](const std::string& row, std::int64_t bytes) {
        const int column = context.rank == kLoaders - 1 ? 2 : context.rank;
        if (context.rank < 2 || column == 2) table.put(row, column, fmt::format("{}", bytes));
      };
      if (loads) {
        load(rank, write_file(rank));
        for (const auto kind :
             {MemoryClass::parameter_shards, MemoryClass::optimizer, MemoryClass::communication}) {
          show(words(kind), peak(kind));
        }
        show("all classes", context.ledger.total_peak());
        return;
      }
      fsdp::AdamW optimizer(context, rank.sharded.units(), {});
      rank.forward_backward(context.rank, 1, 32);
      optimizer.step(1e-3, rank.sharded.clip(1));
      show("a step, without activations",
           context.ledger.total_peak() - peak(MemoryClass::activations));
    });
  }
  return table.text("8 ranks: peak bytes of loading", {"rank 0", "rank 1", "rank 7"},
                    table.order());
}

constexpr std::chrono::milliseconds kStep{100};

std::string tokens_of_replicas() {
  constexpr int kRows = 2, kTokens = 32;
  using Clock = std::chrono::steady_clock;
  Table table;
  int column = 0;
  for (const int shard_size : {1, 2, 4}) {
    comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
      Rank rank(context, std::move(world), small(1),
                {.strategy = fsdp::ShardingStrategy::hybrid_shard, .wrap_policy = is_block}, 0,
                nullptr, shard_size);
      Descent optimizer(context, rank.sharded.units(), nullptr);
      double least = 1e9, loss = 0;
      for (int step = 0; step < 3; ++step) {
        const auto begin = Clock::now();
        rank.sharded.zero_grad();
        loss = rank.forward_backward(kRows * context.rank, kRows, kRows * kTokens);
        optimizer.step(1);
        std::this_thread::sleep_for(kStep);  // a step of a larger model, that needs no core
        const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
        least = std::min(least, took.count());
      }
      if (context.rank != 0) return;
      const double ms = std::round(least / 10) * 10;
      // This is the user's code.
      const int tokens = kRows * kTokens * rank.mesh.replicas();
      table.put("rows of a rank", column, fmt::format("{}", kRows));
      table.put("tokens of a row", column, fmt::format("{}", kTokens));
      table.put("loss of rank 0 in step 3", column, fmt::format("{:.3f}", loss / kRows / kTokens));
      table.put("ms of a step", column, fmt::format("{:.0f}", ms));
      table.put("tokens a second, as printed", column, fmt::format("{:.0f}", tokens / ms * 1000));
    });
    ++column;
  }
  return table.text("replicas x ranks that share one", {"4 x 1", "2 x 2", "1 x 4"}, table.order());
}

}  // namespace

std::vector<Mystery> count_mysteries() {
  return {
      {"A user trains on 4 ranks with a slow link. They accumulate 4 micro-batches, and send "
       "gradients only after the last one. So four times the rows should cost the same bytes of "
       "gradients a step.",
       accumulates_for_nothing,
       {{"The batch is the same as before, only cut into four.",
         "Compare the rows of a rank in the two columns."},
        {"The switch that postpones the sums over ranks reaches no unit, so every micro-batch is "
         "reduced.",
         "Divide the number of reduce-scatters by the number of micro-batches. The model has four "
         "blocks and a root: does the switch reach one of them, on any rank?"},
        {"Parameters are gathered for every micro-batch.",
         "They are. But this table counts gradients only."},
        {"Each row needs bytes of its own.",
         "A reduce-scatter sends gradients. Their size does not depend on the number of rows."}},
       2,
       "all",
       "all",
       "The user's switch looks for a class of model that every rank has a copy of. This model is "
       "sharded, so the switch finds nothing, and says nothing. Call set_requires_gradient_sync, "
       "which adds up whole gradients meanwhile (mystery 5 shows the price), and test the number "
       "of reduce-scatters. In NVIDIA/cosmos-framework 161 four micro-batches took as long as "
       "four steps. Under hybrid_shard the same happens to the all-reduce of the replicas: "
       "torchtitan 1929. There our backward ends with an error."},
      {"A user fine-tunes a large model. Training fits. But one process ends with \"out of "
       "memory\" before the first step, while the weights are read from a file and sent to the "
       "others.",
       peak_of_loading,
       {{"Every rank has read the whole file.",
         "Then every rank would have the same peak. Compare the line of communication."},
        {"One rank has all weights of the file on its device before it sends the first unit.",
         "Which rank's communication memory is as large as the shards of all 8 ranks together? "
         "Does that leave out any unit?"},
        {"The optimizer's moments are made before the weights are there.",
         "See the optimizer's line: it has no moments yet."},
        {"The largest unit is too large to be sent whole.",
         "The ranks that receive a whole unit have memory for it."}},
       2,
       "0",
       "all",
       "The sender copies the file to its device first, and then sends unit by unit. The peak is "
       "the whole model, which a step never needs. Send a unit as soon as it is read, or let each "
       "rank read its own part, as store::load_weights does. Where whole weights are sent before "
       "they are cut, every rank has this peak: pytorch/pytorch 149640. Weights of 32 billion "
       "parameters met it in verl 1517."},
      {"A user measures how many tokens a second 4 ranks train. They share a copy of the model "
       "among 1, 2 and 4 ranks. Their conclusion is that sharding is slow.",
       tokens_of_replicas,
       {{"Gathers among more ranks take longer.", "Compare the milliseconds of a step."},
        {"Tokens are counted as if only replicas had rows of their own.",
         "Count them yourself: rows, tokens of a row, ranks, steps a second. Which ranks have rows "
         "of their own, and has the error to do with a unit?"},
        {"The ranks that share a copy are given the same rows.",
         "Then the model would learn from fewer rows, and the loss would show it."},
        {"Each rank has fewer rows when more ranks share a copy.", "See the first line."}},
       2,
       "all",
       "all",
       "Every rank has rows of its own, whether it has a copy of the model or shares one. So a "
       "step has the tokens of all ranks: replicas times ranks of a group. Here the printed number "
       "is divided by the size of the group. tenstorrent/tt-metal 56901 mends a report that was "
       "divided by it, and calls that the origin of most reports that FSDP is slow."},
  };
}

}  // namespace lesson::mystery
