#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "frame/learner.h"
#include "frame/lesson.h"
#include "gathered_unit.h"
#include "picture.h"

// Lesson 11: a rank also keeps only its shard of the parameters. A unit's whole parameters exist
// only while the unit computes: gather, compute, discard.

namespace {

using namespace nanofsdp;
using lesson::Run, lesson::Unit;
constexpr int kSteps = 8;

// How backward finds a block's parameters: it gathers them again, or (the bug) it uses the
// addresses of forward.
enum class Backward { gathers, remembers };

// A spoiler for the exercise: the hooks for a model that calls each block once.
void attach(Unit& unit, bool is_root, Backward how) {
  nn::Module::Hooks& hooks = unit.gradient.unit.module->hooks;
  hooks.pre_forward = [&unit](nn::Tape&) { unit.gather(); };
  hooks.post_forward = [&unit, is_root](nn::Tape&) {
    if (!is_root) unit.discard();
  };
  hooks.pre_backward = [&unit, is_root, how](nn::Tape&) {
    if (!is_root) how == Backward::gathers ? unit.gather() : unit.remember();
    unit.gradient.borrow();
  };
  hooks.post_backward = [&unit](nn::Tape&) {
    unit.discard();
    unit.gradient.reduce(), unit.note("RS.");
  };
}

Run by_hand(const train::TrainerOptions& o, const data::Dataset& text, Backward how, bool poison) {
  const auto rank = [&](Context& context, auto& world, auto& learner, auto& losses, Run& run) {
    const auto wrapped = fsdp::wrap(learner.model, lesson::is_block);
    std::deque<lesson::Row> rows;
    for (const auto& w : wrapped)
      rows.emplace_back(context, w.parameters, fsdp::ShardingStrategy::full_shard);
    const Buffer block = lesson::slot_for(context, rows.front());
    const Buffer root = lesson::slot_for(context, rows.back());
    std::deque<Unit> units;
    for (std::size_t u = 0; u < rows.size(); ++u) {
      const bool is_root = u + 1 == rows.size();
      const std::int64_t n = rows[u].flat.layout().padded_numel();
      const Tensor slot = (is_root ? root : block).tensor({n});
      lesson::Gradient gradient{context, world, wrapped[u], rows[u]};
      units.push_back({context, world, run, rows[u], std::move(gradient), slot, poison});
      attach(units.back(), is_root, how);
    }
    for (int step = 0; step < kSteps; ++step) {
      world.reset_traffic();
      if (context.rank == 0) run.events.clear(), run.right = 0;
      for (Unit& unit : units) unit.gradient.first = true;
      losses[step] = learner.forward_backward(learner.model);
      const double norm = lesson::update_all(*context.compute, world, rows, o, step);
      if (context.rank == 0) run.norms[step] = static_cast<float>(norm);
    }
    if (context.rank == 0) run.note_borrowed(context);
    lesson::record(run, context, world, rows);
  };
  return lesson::on_ranks<Run>(kSteps, o, text, 1, rank);
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  const Run ours = by_hand(o, text, Backward::gathers, true);
  const Run stale = by_hand(o, text, Backward::remembers, false);
  const Run poisoned = by_hand(o, text, Backward::remembers, true);
  const auto zero_2 = lesson::library(kSteps, {fsdp::ShardingStrategy::shard_gradients}, o, text);
  const auto zero_3 = lesson::library(
      kSteps, {.strategy = fsdp::ShardingStrategy::full_shard, .poison = true}, o, text);

  const auto n = static_cast<std::int64_t>(ours.weights.size());
  lesson.print(fmt::format("{} parameters, 4 ranks: bytes on rank 0, collectives of a step", n));
  lesson.print("                  kept  reduce-scatters  all-gathers  bytes sent");
  lesson.print("lesson 10 " + zero_2.costs());
  lesson.print("by hand   " + ours.costs());
  const std::int64_t all_twice = zero_2.traffic.bytes_sent * 3 / 2;
  const std::int64_t saved = all_twice - ours.traffic.bytes_sent;
  lesson.print(fmt::format("1.5 times lesson 10's: {} bytes; {} less: {:.2f} %", all_twice, saved,
                           100.0 * static_cast<double>(saved) / static_cast<double>(all_twice)));
  lesson.print(fmt::format("borrowed at most: {} bytes", ours.borrowed));
  const int forward = static_cast<int>(ours.traffic.all_gathers);  // 5 gathers and 4 discards
  const auto turn = ours.events.begin() + forward;
  lesson.print(fmt::format("forward:  {}", fmt::join(ours.events.begin(), turn, " ")));
  lesson.print(fmt::format("backward: {}", fmt::join(turn, ours.events.end(), " ")));
  lesson.print("loss and norm       by hand      remembers   and poisoned");
  for (const int step : {1, 2, 4}) {
    lesson.print(
        fmt::format("step {}     {}{}{}", step, ours.at(step), stale.at(step), poisoned.at(step)));
  }
  lesson.print(fmt::format("blocks that backward remembered right: {} of 4", stale.right));

  lesson.claim(ours == zero_2 && ours == zero_3, "weights, losses and norms, to the bit");
  lesson.claim(ours.kept() == zero_3.kept(), "bytes kept");
  lesson.claim(ours.traffic.bytes_sent == zero_3.traffic.bytes_sent, "bytes sent");
  lesson.answer(ours.traffic.all_gathers);
  lesson.answer(saved);
  lesson.answer(stale.right);
  lesson.picture(lesson::picture_of_step(ours.events, forward));
  return lesson.end("by hand is full_shard and lesson 10 to the bit, at 4 bytes of 16");
}
