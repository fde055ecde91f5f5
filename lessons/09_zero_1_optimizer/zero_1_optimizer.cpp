#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "frame/learner.h"
#include "frame/lesson.h"
#include "fsdp/wrap.h"
#include "optimizer_shard.h"
#include "picture.h"

// Lesson 09: each rank stores all parameters and all gradients, but updates only its shard of the
// parameters, and stores only the moments of this shard.

namespace {

using namespace nanofsdp;
using lesson::kRanks;
constexpr int kSteps = 8;

// Trains on four ranks.
// @param gather whether the ranks exchange the updated parameters; if not, it shows a bug
lesson::Trained by_hand(const train::TrainerOptions& o, const data::Dataset& text, bool gather) {
  const auto rank = [&](Context& context, auto& world, auto& learner, auto& losses, auto& run) {
    std::deque<lesson::Row> rows;
    for (const auto& unit : fsdp::wrap(learner.model, lesson::is_block)) {
      rows.emplace_back(
          context, unit.parameters,
          fsdp::ShardingStrategy::shard_optimizer);  // parameters and gradients unsharded
    }
    Stream& stream = *context.compute;
    for (int step = 0; step < kSteps; ++step) {
      world.reset_traffic();
      //! [step]
      losses[step] = learner.forward_backward(learner.model);
      for (lesson::Row& row : rows) {
        world.reduce_scatter(stream, row.flat.gradient_storage(), row.flat.gradient_shard(),
                             comm::ReduceOp::average);
      }
      const double norm = lesson::norm(stream, world, rows);
      const double clip = std::min(o.grad_clip / (norm + 1e-6), 1.0);
      for (lesson::Row& row : rows) {
        lesson::update(stream, row, o, step, clip);
        if (gather) {
          world.all_gather(stream, row.flat.parameter_shard(), row.flat.parameter_storage());
        }
        ops::fill(stream, {.x = row.flat.gradient_storage(), .value = 0});
      }
      //! [step]
      if (context.rank == 0) run.norms[step] = static_cast<float>(norm);
    }
    lesson::record(run, context, world, rows);
  };
  return lesson::on_ranks<lesson::Trained>(kSteps, o, text, 1, rank);
}

lesson::Svg drawing() {
  Context context;
  gpt::GPT model(lesson::nanogpt(65));
  const auto block = fsdp::wrap(model, lesson::is_block).front();
  return lesson::picture_of_zero_1({context, block.parameters, 0, kRanks, /*kept=*/{}, 1}, kRanks);
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  const lesson::Trained replicas =
      lesson::library(kSteps, {fsdp::ShardingStrategy::no_shard}, o, text);
  const lesson::Trained zero_1 =
      lesson::library(kSteps, {fsdp::ShardingStrategy::shard_optimizer}, o, text);
  const lesson::Trained ours = by_hand(o, text, true), forgot = by_hand(o, text, false);

  const auto n = static_cast<std::int64_t>(ours.weights.size());
  lesson.print(
      fmt::format("{} parameters, {} ranks: bytes on rank 0 after {} steps", n, kRanks, kSteps));
  lesson.print("            parameters   gradients     moments         all  a parameter");
  const auto both = {std::pair{"no_shard", &replicas}, {"by hand", &ours}};
  for (const auto& [name, run] : both) {
    const auto& bytes = run->bytes;
    lesson.print(fmt::format("{:<10}{:>12}{:>12}{:>12}{:>12}{:>13}", name, bytes[0], bytes[1],
                             bytes[2], run->kept(), run->kept() / n));
  }
  lesson.print("a step      all-reduces  reduce-scatters  all-gathers  bytes sent");
  for (const auto& [name, run] : both) {
    const auto& t = run->traffic;
    lesson.print(fmt::format("{:<10}{:>13}{:>17}{:>13}{:>12}", name, t.all_reduces,
                             t.reduce_scatters, t.all_gathers, t.bytes_sent));
  }
  lesson.print("loss and norm      no_shard        by hand  not gathered");
  for (const int step : {1, 2, 4, 8}) {
    lesson.print(fmt::format("step {}       {}{}{}", step, replicas.at(step), ours.at(step),
                             forgot.at(step)));
  }
  lesson.print(fmt::format("losses that are no_shard's to the bit: {} of {}",
                           ours.equal_losses(replicas), kSteps));

  lesson.claim(ours.kept() == zero_1.kept(), "bytes kept");
  lesson.claim(ours == replicas && ours == zero_1, "weights, losses and norms, to the bit");
  lesson.claim(ours.traffic.bytes_sent == zero_1.traffic.bytes_sent, "bytes sent");
  lesson.answer(ours.kept() / n);
  lesson.answer(ours.traffic.bytes_sent);
  lesson.answer(ours.equal_losses(replicas));
  lesson.picture(drawing());
  return lesson.end("by hand is shard_optimizer and no_shard to the bit, at 10 bytes of 16");
}
