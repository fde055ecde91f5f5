#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "frame/learner.h"
#include "frame/lesson.h"
#include "gradient_shard.h"

// Lesson 10: of the gradients, too, a rank keeps a W-th. The whole gradient of a unit exists only
// while backward is in that unit.

namespace {

using namespace nanofsdp;
constexpr int kSteps = 8;

enum class When { unit_by_unit, after_backward };

struct Run : lesson::Trained {
  using Trained::Trained;
  std::string order;                   // of the reduce-scatters of a backward
  std::vector<std::int64_t> borrowed;  // bytes of whole gradients, after each change of a backward
};

using Note = std::function<void(const std::string&)>;

//! [hooks]
void attach(lesson::Gradient& gradient, When when, const Note& note) {
  nn::Module::Hooks& hooks = gradient.unit.module->hooks;
  hooks.pre_backward = [&gradient, note](nn::Tape&) { gradient.borrow(), note(""); };
  hooks.post_backward = [&gradient, when, note](nn::Tape&) {
    if (when == When::unit_by_unit) gradient.reduce(), note(gradient.unit.name);
  };
}
//! [hooks]

Run by_hand(const train::TrainerOptions& o, const data::Dataset& text, std::int64_t M, When when) {
  const auto rank = [&](Context& context, auto& world, auto& learner, auto& losses, Run& run) {
    const auto units = fsdp::wrap(learner.model, lesson::is_block);
    std::deque<lesson::Row> rows;
    std::deque<lesson::Gradient> gradients;
    const Note note = [&](const std::string& reduced) {
      if (context.rank != 0 || run.borrowed.size() == 10) return;  // of the first backward
      if (!reduced.empty()) run.order += " " + lesson::short_name(reduced);
      run.borrowed.push_back(context.ledger.count(MemoryClass::unsharded_gradients).reserved);
    };
    for (const fsdp::WrappedModule& unit : units) {
      rows.emplace_back(context, unit.parameters,
                        fsdp::ShardingStrategy::shard_gradients);  // stores only the shard
      gradients.push_back({context, world, unit, rows.back()});
      attach(gradients.back(), when, note);
    }
    for (int step = 0; step < kSteps; ++step) {
      world.reset();
      //! [step]
      for (lesson::Gradient& gradient : gradients) gradient.first = true;
      for (std::int64_t m = 0; m < M; ++m) {
        losses[step] += learner.forward_backward(learner.model);
        if (when == When::unit_by_unit) continue;  // nothing is left to do
        for (lesson::Gradient& gradient : gradients) gradient.reduce(), note(gradient.unit.name);
      }
      //! [step]
      const double norm = lesson::update_all(*context.compute, world, rows, o, step);
      if (context.rank == 0) run.norms[step] = static_cast<float>(norm);
      lesson::gather_all(*context.compute, world, rows);
    }
    lesson::record(run, context, world, rows);
  };
  return lesson::on_ranks<Run>(kSteps, o, text, M, rank);
}

lesson::Svg drawing(const Run& early, const Run& late) {
  lesson::Svg svg(690, 240);
  int x = 20;
  for (const Run* run : {&early, &late}) {
    svg.text(x, 20, run == &early ? "reduced unit by unit" : "reduced after backward");
    for (const std::int64_t bytes : run->borrowed) {
      const int height = static_cast<int>(bytes / 20000);
      svg.rect(x, 200 - height, 28, height, lesson::colour::orange);
      x += 30;
    }
    svg.line(x - 300, 200, x, 200);
    x += 50;
  }
  svg.text(20, 228, "bytes of whole gradients on a rank: ten moments of a backward, five units");
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  const auto library = [&](fsdp::ShardingStrategy strategy, std::int64_t M) {
    return lesson::library(kSteps, {strategy}, o, text, M);
  };
  const Run ours = by_hand(o, text, 1, When::unit_by_unit);
  const Run late = by_hand(o, text, 1, When::after_backward);
  const Run ours_3 = by_hand(o, text, 3, When::unit_by_unit);
  const auto zero_1 = library(fsdp::ShardingStrategy::shard_optimizer, 1);
  const auto zero_1_3 = library(fsdp::ShardingStrategy::shard_optimizer, 3),
             theirs = library(fsdp::ShardingStrategy::shard_gradients, 3);

  const auto n = static_cast<std::int64_t>(ours.weights.size());
  lesson.print(fmt::format("{} parameters, 4 ranks: bytes on rank 0, collectives of a step", n));
  lesson.print("micro-batches           kept  reduce-scatters  all-gathers  bytes sent");
  lesson.print("1, lesson 09    " + zero_1.costs());
  lesson.print("1, by hand      " + ours.costs());
  lesson.print("3, lesson 09    " + zero_1_3.costs());
  lesson.print("3, by hand      " + ours_3.costs());
  const std::int64_t most = std::ranges::max(ours.borrowed);
  lesson.print("reduced unit by unit, in the order" + ours.order);
  lesson.print(fmt::format("borrowed at most: {} bytes; if reduced after backward: {}", most,
                           std::ranges::max(late.borrowed)));
  lesson.print("loss and norm          1, by hand      3, by hand");
  for (const int step : {1, 2, 4, 8}) {
    lesson.print(fmt::format("step {}         {}{}", step, ours.at(step), ours_3.at(step)));
  }
  const auto same = [](bool equal) { return equal ? "equal" : "differs"; };
  lesson.print(fmt::format("lesson 09 and this, every bit: 1 micro-batch {}, 3 micro-batches {}",
                           same(ours == zero_1), same(ours_3 == zero_1_3)));

  lesson.claim(ours == late, "the moment of the reduction changes no bit");
  lesson.claim(ours == library(fsdp::ShardingStrategy::shard_gradients, 1),
               "1 micro-batch, to the bit");
  lesson.claim(ours_3 == theirs && ours_3.kept() == theirs.kept(), "3 micro-batches, to the bit");
  lesson.claim(ours_3.traffic.bytes_sent == theirs.traffic.bytes_sent, "bytes sent");
  lesson.answer(ours.kept() / n);
  lesson.answer(ours_3.traffic.reduce_scatters);
  lesson.answer(most);
  lesson.picture(drawing(ours, late));
  return lesson.end("by hand is shard_gradients to the bit, at 7 bytes of 16");
}
