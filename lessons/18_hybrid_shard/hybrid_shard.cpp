#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "05_replicate/replica.h"
#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/train.h"
#include "measure.h"

// Lesson 18: each group of ranks holds a whole model, in shards.

namespace {

using namespace nanofsdp;
constexpr int kRanks = 4, kGroup = 2, kSteps = 20;

//! [groups]
// 4 ranks in groups of 2. {0, 1} hold the shards of one model, and so do {2, 3}. {0, 2} hold the
// same shard, and so do {1, 3}.
struct Groups {
  explicit Groups(comm::Communicator& world)
      : inside(world.split(world.rank() / kGroup)), across(world.split(world.rank() % kGroup)) {}
  std::unique_ptr<comm::Communicator> inside, across;
};
//! [groups]

//! [reduce]
void reduce(Stream& stream, Groups& groups, Tensor gradient, Tensor shard) {
  groups.inside->reduce_scatter(stream, gradient, shard, comm::ReduceOp::sum);
  groups.across->all_reduce(stream, shard, comm::ReduceOp::sum);
}
//! [reduce]

// Lesson 05's training, with gradients that are summed this way.
lesson::Curve train_by_hand(const train::TrainerOptions& o, const data::Dataset& text) {
  lesson::Curve curve(kSteps);
  std::vector<double> sums(kRanks * kSteps);
  comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
    Groups groups(*world);
    lesson::Replica replica(context, o, text);
    Stream& stream = *context.compute;
    for (int step = 0; step < kSteps; ++step) {
      replica.draw(text);
      sums[kRanks * step + context.rank] = replica.forward_backward();
      for (lesson::Owned& own : replica.all) {
        const Tensor gradient = own.part(1).view({own.part(1).numel()});
        std::vector<float> memory(gradient.numel() / kGroup);
        const Tensor shard(memory.data(), {std::ssize(memory)});
        reduce(stream, groups, gradient, shard);
        for (float& g : memory) g /= kRanks;
        groups.inside->all_gather(stream, shard, gradient);
      }
      const double norm = replica.norm(), clip = std::min(o.grad_clip / (norm + 1e-6), 1.0);
      for (lesson::Owned& own : replica.all) lesson::update(stream, own, o, step, clip);
      if (context.rank == 0) curve.norms[step] = static_cast<float>(norm);
    }
  });
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) curve.losses[step] += sums[kRanks * step + rank];
    curve.losses[step] /= static_cast<double>(o.batch_size * o.block_size);
  }
  return curve;
}

//! [formula]
// Bytes that a rank receives in a step, in float32, with R groups of F ranks. `root` of the n
// parameters are gathered once, all others twice.
std::int64_t inside(std::int64_t n, std::int64_t root, std::int64_t F) {
  return 4 * (3 * n - root) * (F - 1) / F;
}
std::int64_t across(std::int64_t n, std::int64_t F, std::int64_t R) {
  return 4 * 2 * (n / F) * (R - 1) / R;
}
//! [formula]

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const float toy[] = {1e8f, 1, -1e8f, 1};
  const float in_order = ((toy[0] + toy[1]) + toy[2]) + toy[3];
  const float by_group = (toy[0] + toy[1]) + (toy[2] + toy[3]);
  lesson.print(fmt::format("1e8 + 1 - 1e8 + 1: {} in rank order, {} by group", in_order, by_group));

  train::TrainerOptions o = lesson::recipe();
  const data::Dataset text = data::load_dataset({}, o.block_size);
  const lesson::Curve by_hand = train_by_hand(o, text);
  o.strategy = fsdp::ShardingStrategy::full_shard;
  const lesson::Curve full = lesson::train(kRanks, kSteps, o, text);
  o.strategy = fsdp::ShardingStrategy::hybrid_shard, o.shard_size = kGroup;
  const lesson::Curve hybrid = lesson::train(kRanks, kSteps, o, text);
  const bool equal = by_hand.losses == hybrid.losses && by_hand.norms == hybrid.norms;
  lesson.claim(equal, "hybrid_shard is what we did by hand");
  lesson.print(fmt::format("loss of step {}: full_shard {:.4f}, hybrid_shard {:.4f}, all bits: {}",
                           kSteps, full.losses.back(), hybrid.losses.back(),
                           full.losses == hybrid.losses ? "equal" : "differs"));

  const std::int64_t n = 802432, root = 14976;
  lesson.print("4 ranks, one of them           full_shard  hybrid 2 x 2");
  const auto row = [&](const char* name, std::int64_t a, std::int64_t b) {
    lesson.print(fmt::format("{:<29}{:>12}{:>14}", name, a, b));
  };
  for (const int M : {1, 3}) {
    const auto f = lesson::measure(kRanks, fsdp::ShardingStrategy::full_shard, 0, M);
    const auto h = lesson::measure(kRanks, fsdp::ShardingStrategy::hybrid_shard, kGroup, M);
    const std::int64_t f_across = f.all.bytes_received * 2 / 3;  // 2 of its 3 peers
    const std::int64_t f_inside = f.all.bytes_received - f_across,
                       h_across = h.across.bytes_received;
    const std::int64_t h_inside = h.all.bytes_received - h_across;
    if (M == 1) row("keeps between steps, bytes", f.kept, h.kept);
    lesson.print(fmt::format("a step of {} micro-batch{}", M, M == 1 ? "" : "es"));
    row("  receives inside, bytes", f_inside, h_inside);
    row("  receives across, bytes", f_across, h_across);
    row("  inside + 10 x across", f_inside + 10 * f_across, h_inside + 10 * h_across);
    row("  all-reduces across", f.across.all_reduces, h.across.all_reduces);
    lesson.claim(f.all.bytes_received == M * inside(n, root, kRanks), "full_shard by formula");
    lesson.claim(h_inside == M * inside(n, root, kGroup), "hybrid_shard, inside, by formula");
    lesson.claim(h_across == across(n, kGroup, kRanks / kGroup), "across, by formula");
    if (M == 1) lesson.answer(h.kept), lesson.answer(h_across);
    if (M == 1) lesson.picture(lesson::drawing(h_inside, h_across));
    if (M == 3) lesson.answer(h.across.all_reduces);
  }
  // Replicas that split the update keep fewer moments, and send as many bytes.
  const auto split =
      lesson::measure(kRanks, fsdp::ShardingStrategy::hybrid_shard_optimizer, kGroup, 1);
  lesson.print(fmt::format("hybrid_shard_optimizer keeps {} bytes, and receives {} across",
                           split.kept, split.across.bytes_received));
  lesson.claim(split.kept == n * (8 / kGroup + 8 / kRanks), "moments are sharded over all ranks");
  return lesson.end(
      "20 steps by hand are hybrid_shard to the bit, and the bytes are the formula's");
}
