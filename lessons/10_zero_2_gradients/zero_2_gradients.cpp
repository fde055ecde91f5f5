#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "frame/learner.h"
#include "frame/lesson.h"
#include "gradient_shard.h"
#include "picture.h"

// Lesson 10: a rank also keeps only its shard of the gradients. The whole gradient of a unit exists
// only while backward is in that unit.

namespace {

using namespace nanofsdp;
constexpr int kSteps = 8;

enum class When { unit_by_unit, after_backward };

struct Run : lesson::Trained {
  using Trained::Trained;
  std::vector<lesson::Change> changes;  // changes of the memory of whole gradients, in one backward
  std::int64_t most() const {
    return std::ranges::max_element(changes, {}, &lesson::Change::bytes)->bytes;
  }
};

using Note = std::function<void(const char* event, const lesson::Gradient&)>;

//! [hooks]
void attach(lesson::Gradient& gradient, When when, const Note& note) {
  nn::Module::Hooks& hooks = gradient.unit.module->hooks;
  hooks.pre_backward = [&gradient, note](nn::Tape&) { gradient.borrow(), note("+", gradient); };
  hooks.post_backward = [&gradient, when, note](nn::Tape&) {
    if (when == When::unit_by_unit) gradient.reduce(), note("-", gradient);
  };
}
//! [hooks]

Run by_hand(const train::TrainerOptions& o, const data::Dataset& text, std::int64_t M, When when) {
  const auto rank = [&](Context& context, auto& world, auto& learner, auto& losses, Run& run) {
    const auto units = fsdp::wrap(learner.model, lesson::is_block);
    std::deque<lesson::Row> rows;
    std::deque<lesson::Gradient> gradients;
    const Note note = [&](const char* event, const lesson::Gradient& gradient) {
      if (context.rank != 0 || run.changes.size() == 10) return;  // after the first backward
      run.changes.push_back({event + lesson::short_name(gradient.unit.name),
                             context.ledger.count(MemoryClass::unsharded_gradients).reserved});
    };
    for (const fsdp::WrappedModule& unit : units) {
      rows.emplace_back(context, unit.parameters,
                        fsdp::ShardingStrategy::shard_gradients);  // stores gradient shards
      gradients.push_back({context, world, unit, rows.back()});
      attach(gradients.back(), when, note);
    }
    for (int step = 0; step < kSteps; ++step) {
      world.reset_traffic();
      //! [step]
      for (lesson::Gradient& gradient : gradients) gradient.first = true;
      for (std::int64_t micro = 0; micro < M; ++micro) {
        losses[step] += learner.forward_backward(learner.model);
        if (when == When::unit_by_unit) continue;  // the hooks have reduced all
        for (lesson::Gradient& gradient : gradients) gradient.reduce(), note("-", gradient);
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
  std::string order;
  for (const lesson::Change& change : ours.changes) {
    if (change.event.starts_with("-")) order += " " + change.event.substr(1);
  }
  lesson.print("reduced unit by unit, in the order" + order);
  lesson.print(fmt::format("borrowed at most: {} bytes; if reduced after backward: {}", ours.most(),
                           late.most()));
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
  lesson.answer(ours.most());
  lesson.picture(lesson::picture_of_changes(ours.changes, late.changes));
  return lesson.end("by hand is shard_gradients to the bit, at 7 bytes of 16");
}
