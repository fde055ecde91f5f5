#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "10_zero_2_gradients/gradient_shard.h"
#include "small_model.h"
#include "zero_3_units_exercise.h"

/// @file
/// @brief One rank of a training with the reader's hooks, and one of the library's. Both say the
/// same lines in the same order.

namespace lesson {

/// The reader's functions.
struct FourHooks {
  void (*pre_forward)(HookedUnit&);
  void (*post_forward)(HookedUnit&);
  void (*pre_backward)(HookedUnit&);
  void (*post_backward)(HookedUnit&);
};

/// The bytes that a rank holds beside its shards.
struct Borrowed {
  std::int64_t now = 0, peak = 0;
  void add(std::int64_t elements) {
    now += elements * static_cast<std::int64_t>(sizeof(float));
    peak = std::max(peak, now);
  }
};

/// A unit of the reader's run.
class TriedUnit final : public HookedUnit {
 public:
  TriedUnit(Context& context, comm::Communicator& world, const fsdp::WrappedModule& wrapped,
            Row& row, Tensor slot, const Say& say, const Pass& pass, Borrowed& borrowed)
      : context_(context),
        world_(world),
        row_(row),
        slot_(slot),
        say_(say),
        pass_(pass),
        borrowed_(borrowed),
        gradient_{context, world, wrapped, row},
        sink_(context.ledger, MemoryClass::communication, slot.numel() * sizeof(float)),
        name_(wrapped.name) {
    poison(slot_), row_.flat.show_parameters(slot_);
    end_of_gradient();
  }

  bool is_root() const override { return gradient_.unit.depth == 0; }
  bool is_training() const override { return pass_.training; }
  bool has_gradient() const override { return gradient_.whole.bytes() > 0; }

  void gather() override {
    say_("U." + name_);
    require(!unsharded_, "gather(): the parameters are gathered already");
    // The bytes of an evaluation are counted apart, as the library does.
    world_.all_gather(*context_.compute, row_.flat.parameter_shard(), slot_,
                      {.control = !pass_.training});
    unsharded_ = true;
    borrowed_.add(slot_.numel());
  }
  void discard() override {
    say_("R." + name_);
    require(unsharded_, "discard(): the parameters are sharded already");
    poison(slot_);
    unsharded_ = false;
    borrowed_.add(-slot_.numel());
  }
  void borrow() override {
    require(!has_gradient(), "borrow(): the unit has a gradient, which would be lost");
    gradient_.borrow();
    poison(gradient_.whole.tensor({slot_.numel()}));
    borrowed_.add(slot_.numel());
  }
  void zero() override {
    require(has_gradient(), "zero(): no memory is borrowed");
    ops::fill(*context_.compute, {.x = gradient_.whole.tensor({slot_.numel()}), .value = 0});
  }
  void reduce() override {
    say_("RS." + name_);
    require(has_gradient(), "reduce(): the unit has no gradient, because no memory is borrowed");
    gradient_.reduce();
    end_of_gradient();
    borrowed_.add(-slot_.numel());
    reduced = true;
  }

  /// Prepares the unit for the next pass.
  void begin_pass() {
    ops::fill(*context_.compute, {.x = row_.flat.gradient_shard(), .value = 0});
    gradient_.first = true, reduced = false;
  }

  bool reduced = false;  // in this pass
  int steps = 0;         // of the optimizer

 private:
  // If the module adds to a gradient that was not borrowed, the sink gets the sum.
  void end_of_gradient() { row_.flat.show_gradients(sink_.tensor({slot_.numel()})); }
  void poison(Tensor x) {
    ops::fill(*context_.compute, {.x = x, .value = std::numeric_limits<float>::quiet_NaN()});
  }
  void require(bool holds, const std::string& what) const {
    if (holds) return;
    say_("!" + what);
    throw std::runtime_error(what);
  }

  Context& context_;
  comm::Communicator& world_;
  Row& row_;
  Tensor slot_;
  const Say& say_;
  const Pass& pass_;
  Borrowed& borrowed_;
  Gradient gradient_;
  Buffer sink_;
  std::string name_;
  bool unsharded_ = false;
};

/// Adds hooks that say which hook comes next.
inline void say_first(nn::Module::Hooks& on, const Say& say, const std::string& unit) {
  on.pre_forward.add([&say, unit](nn::Tape&) { say("@pre_forward " + unit); });
  on.pre_backward.add([&say, unit](nn::Tape&) { say("@pre_backward " + unit); });
}

/// The bytes of parameters, gradients and moments, which a rank keeps.
inline std::int64_t kept_bytes(const Context& context) {
  std::int64_t sum = 0;
  for (const auto kind :
       {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer}) {
    sum += context.ledger.count(kind).reserved;
  }
  return sum;
}

inline void say_weights(const Say& say, const std::string& unit, Tensor shard) {
  for (std::int64_t i = 0; i < shard.numel(); ++i) {
    say(fmt::format("~element {} of the shard of {}: {}", i, unit, digits(shard.f32()[i])));
  }
}

/// One rank of the reader's run.
inline void run_hooks(Context& context, comm::Communicator& world, const FourHooks& hooks,
                      const Say& say) {
  Model model(say);
  const auto wrapped = fsdp::wrap(model, [&](const auto& m) { return model.is_block(m); });
  std::deque<Row> rows;
  for (const auto& w : wrapped)
    rows.emplace_back(context, w.parameters, fsdp::ShardingStrategy::full_shard);
  const auto slot_of = [&](const Row& row) {
    return Buffer(context.ledger, MemoryClass::unsharded_parameters,
                  row.flat.layout().padded_numel() * sizeof(float));
  };
  const Buffer of_blocks = slot_of(rows.front()), of_root = slot_of(rows.back());
  Pass now;
  Borrowed borrowed;
  std::deque<TriedUnit> units;
  for (std::size_t u = 0; u < rows.size(); ++u) {
    const Buffer& slot = u + 1 == rows.size() ? of_root : of_blocks;
    TriedUnit& unit =
        units.emplace_back(context, world, wrapped[u], rows[u],
                           slot.tensor({rows[u].flat.layout().padded_numel()}), say, now, borrowed);
    nn::Module::Hooks& on = wrapped[u].module->hooks;
    say_first(on, say, wrapped[u].name);
    on.pre_forward.add([&hooks, &unit](nn::Tape&) { hooks.pre_forward(unit); });
    on.post_forward.add([&hooks, &unit](nn::Tape&) { hooks.post_forward(unit); });
    on.pre_backward.add([&hooks, &unit](nn::Tape&) { hooks.pre_backward(unit); });
    on.post_backward.add([&hooks, &unit](nn::Tape&) { hooks.post_backward(unit); });
  }
  nn::Tape tape(context);
  std::mt19937 random(2 + context.rank);
  const train::TrainerOptions o;
  for (const Pass& pass : passes()) {
    now = pass;
    world.reset_traffic();
    borrowed.peak = borrowed.now;
    for (TriedUnit& unit : units) unit.begin_pass();
    say("pass");
    const double loss = model.run(
        tape, pass, random, [&](nn::Tape& t, Tensor x) { return model.forward(t, x); },
        [&](nn::Tape& t, Tensor dy) { model.backward(t, dy), t.end_backward(); });
    say(fmt::format("#bytes sent: {}", world.traffic().bytes_sent));
    say(fmt::format("#bytes borrowed at most: {}", borrowed.peak));
    say(fmt::format("#bytes kept after it: {}", kept_bytes(context) + borrowed.now));
    say("~loss: " + digits(loss));
    if (!pass.training) continue;
    const double before = norm(*context.compute, world, rows);
    say("~gradient norm: " + digits(static_cast<float>(before)));
    for (std::size_t u = 0; u < rows.size(); ++u) {
      if (units[u].reduced) {
        update(*context.compute, rows[u], o, units[u].steps++,
               std::min(o.grad_clip / (before + 1e-6), 1.0));
      }
      say_weights(say, wrapped[u].name, rows[u].flat.parameter_shard());
    }
  }
  say("end");
}

/// The lines of the library's run, without the events that the exercise does not ask for, and with
/// the bytes that a run with these events has to borrow. (The library itself has two slots for
/// gradients.)
inline std::vector<std::string> asked_for(const std::vector<std::string>& order) {
  std::vector<std::string> lines;
  std::set<std::string> with_gradient;
  Borrowed borrowed;
  for (const std::string& line : order) {
    if (line.starts_with("F.") || line.starts_with("u.") || line.starts_with("r.")) continue;
    const std::string unit = line.substr(line.find_first_of(" .") + 1);
    const std::int64_t n = kWidth * (kWidth + 1) * (unit == "root" ? 2 : 1);
    if (line == "pass") borrowed.peak = borrowed.now;
    if (line.starts_with("U.")) borrowed.add(n);
    if (line.starts_with("R.")) borrowed.add(-n);
    if (line.starts_with("@pre_backward") && with_gradient.insert(unit).second) borrowed.add(n);
    if (line.starts_with("RS.") && with_gradient.erase(unit) > 0) borrowed.add(-n);
    lines.push_back(line);
    if (line.starts_with("#bytes sent"))
      lines.push_back(fmt::format("#bytes borrowed at most: {}", borrowed.peak));
  }
  return lines;
}

/// One rank of the library's run. The events come from its tracer.
inline void run_library(Context& context, std::unique_ptr<comm::Communicator> world,
                        std::vector<std::string>& lines) {
  const Say say = [&](const std::string& line) { context.tracer.issue(line); };
  comm::Mesh mesh(std::move(world));
  Model model(say);
  for (const auto& w : fsdp::wrap(model, [&](const auto& m) { return model.is_block(m); }))
    say_first(w.module->hooks, say, w.name);
  fsdp::ShardedModel sharded(context, model, mesh,
                             {.forward_prefetch = 0,
                              .backward_prefetch = fsdp::BackwardPrefetch::none,
                              .alignment = 1,
                              .wrap_policy = [&](const auto& m) { return model.is_block(m); }});
  const train::TrainerOptions o;
  fsdp::AdamW optimizer(context, sharded.units(),
                        {.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay});
  fsdp::GradNorm norm(context, mesh);
  nn::Tape tape(context);
  std::mt19937 random(2 + context.rank);
  context.tracer.start();
  for (const Pass& pass : passes()) {
    mesh.reset_traffic();
    sharded.zero_grad();
    say("pass");
    const double loss = model.run(
        tape, pass, random, [&](nn::Tape& t, Tensor x) { return sharded.forward(t, x); },
        [&](nn::Tape& t, Tensor dy) { sharded.backward(t, dy); });
    say(fmt::format("#bytes sent: {}", mesh.traffic().bytes_sent));
    say(fmt::format("#bytes kept after it: {}", kept_bytes(context)));
    say("~loss: " + digits(loss));
    if (!pass.training) continue;
    norm.compute(sharded.units(), o.grad_clip);
    say("~gradient norm: " + digits(*norm.norm().f32()));
    optimizer.step(o.learning_rate, norm.coefficient());
    for (fsdp::Unit& unit : sharded.units())
      say_weights(say, unit.name(), unit.rows().front().parameter_shard());
  }
  say("end");
  lines = asked_for(context.tracer.take_order());
}

}  // namespace lesson
