#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"
#include "picture.h"

// Lesson 00: why a model is sharded. The memory of a large model by arithmetic, the memory of a
// small model by measurement, and what each rank holds at seven moments of one sharded step.

namespace {

using namespace nanofsdp;
using lesson::Held, lesson::Moment;
constexpr int kRanks = 4, kSteps = 3;

//! [kept]
// Gigabytes that each of W ranks keeps of n parameters, 16 bytes each.
double replicated(double n, int /*W*/) { return 16 * n / 1e9; }
double sharded(double n, int W) { return 16 * n / W / 1e9; }
//! [kept]

// How many elements of each unit this rank can read now.
Moment look(std::string when, fsdp::ShardedModel& model) {
  Moment moment{.when = std::move(when), .units = {}};
  for (const fsdp::Unit& unit : model.units()) {
    Held held{.unit = unit.is_root() ? "root" : unit.name().substr(unit.name().find("h."))};
    held.shard = unit.rows()[0].layout().shard_numel();
    for (const nn::Parameter* parameter : unit.rows()[0].parameters()) {
      held.whole += parameter->shape.numel();
      held.parameters += parameter->data.numel();
      held.gradients += parameter->grad().numel();
    }
    moment.units.push_back(held);
  }
  return moment;
}

// The results of a run.
struct Trained {
  std::int64_t kept = 0;                   // bytes on rank 0, from step to step
  std::int64_t borrowed = 0;               // bytes on rank 0, in addition, at most
  std::vector<float> weights;              // the whole model's, as rank 0 sees them
  std::vector<std::vector<Moment>> ranks;  // for each rank, the moments of the last step
};

Trained train(fsdp::ShardingStrategy strategy) {
  gpt::GPTConfig config = lesson::nanogpt(52);
  config.n_layer = 2;  // two blocks, h.0 and h.1; all other parameters are the root
  Trained trained{.weights = {}, .ranks = std::vector<std::vector<Moment>>(kRanks)};
  comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
    lesson::ShardedRank rank(context, std::move(world), config,
                             {.strategy = strategy,
                              .forward_prefetch = 0,
                              .backward_prefetch = fsdp::BackwardPrefetch::none,
                              .alignment = 1});
    std::vector<Moment>& moments = trained.ranks[context.rank];
    //! [look]
    const auto note = [&](const std::string& when) { moments.push_back(look(when, rank.sharded)); };
    for (fsdp::Unit& unit : rank.sharded.units()) {
      if (unit.is_root()) continue;
      const std::string name = unit.name().substr(unit.name().find("h."));
      nn::Module& layer = *unit.module().children().front().second;  // the block's first layer
      layer.hooks.pre_forward = [=](nn::Tape&) { note("forward of " + name); };
      layer.hooks.pre_backward = [=](nn::Tape&) { note("backward of " + name); };
    }
    //! [look]
    for (int step = 0; step < kSteps; ++step) {
      const lesson::Rows rows(config, 12 * step + 3 * context.rank, 3);  // this rank's 3 of 12
      moments.clear();
      //! [step]
      rank.sharded.zero_grad();
      note("at rest");
      rank.forward_backward(rows, 1.0F / (3 * 64));  // the loss is a mean over 3 rows of 64 tokens
      note("after backward");
      rank.update();  // AdamW, on the rank's shard only
      note("after AdamW");
      //! [step]
    }
    std::vector<float> weights = rank.weights();
    if (context.rank != 0) return;
    trained.weights = std::move(weights);
    for (const MemoryClass kind :
         {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer}) {
      trained.kept += context.ledger.count(kind).reserved;
    }
    for (const MemoryClass kind :
         {MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
      trained.borrowed += context.ledger.count(kind).in_use_peak;
    }
  });
  return trained;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  std::string ranks, all, parts;
  for (const int W : {1, 2, 8, 16, 64}) {
    ranks += fmt::format("{:>8}", W);
    all += fmt::format("{:>8.1f}", replicated(70e9, W));
    parts += fmt::format("{:>8.1f}", sharded(70e9, W));
  }
  lesson.print("70 billion parameters of 16 bytes: GB on each GPU");
  lesson.print("GPUs         " + ranks);
  lesson.print("data parallel" + all);
  lesson.print("sharded      " + parts);

  const Trained whole = train(fsdp::ShardingStrategy::no_shard);
  const Trained shards = train(fsdp::ShardingStrategy::full_shard);
  const auto n = static_cast<std::int64_t>(shards.weights.size());
  lesson.print(fmt::format("a GPT of {} parameters on {} ranks: bytes on each", n, kRanks));
  lesson.print(fmt::format("data parallel{:>10} kept", whole.kept));
  lesson.print(
      fmt::format("sharded      {:>10} kept,{:>10} borrowed", shards.kept, shards.borrowed));
  lesson.print("one sharded step of rank 0: elements that it can read");
  lesson.print("                       parameters          gradients");
  lesson.print("                   root    h.0    h.1   root    h.0    h.1");
  for (const Moment& moment : shards.ranks[0]) lesson.print(lesson::line(moment));

  lesson.claim(whole.kept == 16 * n && shards.kept == 16 * n / kRanks, "bytes by arithmetic");
  lesson.claim(whole.weights == shards.weights, "equal weights");
  lesson.answer(static_cast<std::int64_t>(replicated(70e9, 1)));
  lesson.answer(static_cast<std::int64_t>(replicated(70e9, 8)));
  lesson.answer(static_cast<std::int64_t>(sharded(70e9, 16)));
  lesson.picture(lesson::drawing(shards.ranks));
  return lesson.end("a quarter of the memory kept, and the same weights to the bit");
}
