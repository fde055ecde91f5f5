#pragma once

#include <deque>
#include <optional>

#include "fsdp/wrap.h"
#include "models/first_values.h"
#include "models/gradients.h"
#include "models/record.h"
#include "models/state.h"

namespace models {

/// @file
/// @brief The data parallel training of a program in its plainest form: one model that is never
/// sharded and never recomputed computes the rows of each rank in turn.
///
/// The strategy only decides the order of sums (gradients.h). A parameter that no rank used in a
/// step has no gradient: it does not count in the norm, and is neither updated nor decayed.

/// The expected result of a program.
struct Outcome {
  std::vector<Records> parts;          ///< records of each rank
  std::optional<std::string> refusal;  ///< a text in the error with which the last part must end
};

class Reference {
 public:
  explicit Reference(const Program& program)
      : program_(program), model_(program, /*recompute=*/false) {
    wrapped_ = fsdp::wrap(model_.root(),
                          [this](const nn::Module& module) { return model_.unit_options(module); });
    Values values = first_values(program, model_.root(), wrapped_);
    for (nn::Parameter* parameter : model_.root().named_parameters()) {
      State& state = states_.emplace_back(*parameter);
      state.now.values = values[parameter];
      state.now.values.resize(static_cast<std::size_t>(parameter->shape.numel()));
      round(state.now.values, parameter->dtype);
      state.now.m = state.now.v = std::vector<float>(state.now.values.size());
      parameter->data = state.shown;
    }
    model_.hook_in_again();
    for (const fsdp::WrappedModule& unit : wrapped_) {
      for (nn::Module* module : unit.modules) {
        module->innermost.pre_forward = [this, unit](nn::Tape&) { require_values(unit); };
        module->innermost.pre_backward = [this, u = units_.size()](nn::Tape&) {
          gradients_->take(u);
        };
      }
      precisions_.push_back(unit.options.precision);
      std::vector<std::size_t>& members = units_.emplace_back();
      for (const nn::Parameter* parameter : unit.parameters) {
        const auto state = std::ranges::find(states_, parameter, &State::parameter);
        state->precision = unit.options.precision;
        if (state->trains) members.push_back(static_cast<std::size_t>(state - states_.begin()));
      }
    }
  }

  Outcome run() {
    Outcome outcome;
    try {
      for (const Part& part : program_.parts) run(part, outcome.parts.size(), outcome);
    } catch (const Refusal& refusal) {
      outcome.refusal = refusal.what();
    }
    return outcome;
  }

 private:
  void run(const Part& part, std::size_t i, Outcome& outcome) {
    world_ = part.world;
    course_.emplace(world_, i);
    Records& records = outcome.parts.emplace_back(world_.ranks);
    records_ = &records;
    std::vector<std::size_t> sizes;
    for (State& state : states_) {
      sizes.push_back(state.now.values.size());
      state.parameter->requires_grad = state.trains;
      if (i > 0) state.saved = state.now;
    }
    is_saved_ = is_saved_ || i > 0;
    gradients_.emplace(world_, units_, sizes, precisions_);
    play(part.actions, "", 0);
    require_agreement();
    for (const fsdp::WrappedModule& unit : wrapped_) require_values(unit);  // they are summoned
    for (const State& state : states_) {
      const std::string& name = state.parameter->name;
      const Kept none{state.now.values, {}, {}, 0};
      const Kept& kept = state.trains ? state.now : none;
      for (Record& record : records) {
        record.add("at the end: " + name, kept.values);
        record.slices.push_back({name, 0, kept.values, kept.m, kept.v, kept.steps});
      }
    }
  }

  void play(const std::vector<Action>& actions, const std::string& outer, std::size_t depth) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::string place = place_of(outer, i, actions[i]);
      play(actions[i], place, depth);
    }
  }

  void play(const Action& action, const std::string& place, std::size_t depth) {
    switch (action.what) {
      case Do::pass:
      case Do::evaluate:
      case Do::give_up:
        return pass(action, place, depth);
      case Do::fail:  // its effects are forgotten
        require_agreement();
        course_->turn(action);
        return zero_grad(/*to_none=*/true);
      case Do::zero_grad:
        return zero_grad(action.on);
      case Do::clip:
      case Do::step:
        return step(action, place);
      case Do::sync:
        return gradients_->sync(action.which, action.on);
      case Do::across:
        return gradients_->sync(action.which, action.on, /*across=*/true);
      case Do::train:
        if (states_.empty()) return;
        states_[static_cast<std::size_t>(action.which) % states_.size()].parameter->requires_grad =
            action.on;
        return;
      case Do::summon:
        if (action.on) record_parameters(place);
        return;
      case Do::save:
        for (State& state : states_) state.saved = state.now;
        is_saved_ = true;
        return;
      case Do::load:
        if (is_saved_) require_no_backward();
        for (State& state : states_) {
          if (is_saved_) state.now = state.saved;
        }
        return course_->updated();
      case Do::look:
      case Do::ahead:
      case Do::after_forward:
      case Do::after_backward:
      case Do::in_backward:
        return;
    }
  }

  void zero_grad(bool to_none) {
    gradients_->zero(
        [&](std::size_t i) { return !to_none && states_[i].parameter->requires_grad; });
  }

  // All ranks run forward, then the actions inside, then all run backward.
  void pass(const Action& action, const std::string& place, std::size_t depth) {
    const Turn turn = course_->turn(action);
    const bool backward = action.what == Do::pass;
    require_unchanged();
    require_agreement();
    show_parameters();
    std::vector<Pass> passes;
    std::vector<Owned<float>> rows;
    for (int rank = 0; rank < world_.ranks; ++rank) {
      model_.pass = pass_of(action, turn, rank);
      rows.push_back(input_of(program_, rank, turn, Input::rows));
      nn::Tape& tape = tape_of(rank, depth);
      tape.begin(/*training=*/action.what != Do::evaluate, key_of(program_, turn, rank));
      const Tensor y = model_.root().forward(tape, rows.back());
      record(rank).add(place + "output", y.span<float>());
      passes.push_back(std::exchange(model_.pass, {}));
      if (backward) continue;
      tape.end();
      record(rank).add(place + "hooks", passes.back().seen);
    }
    if (!backward) return;
    ++waiting_;
    play(action.inside, place, depth + 1);
    --waiting_;
    show_parameters();
    gradients_->begin([&](std::size_t i) { return states_[i].parameter->requires_grad; });
    for (int rank = 0; rank < world_.ranks; ++rank) {
      model_.pass = std::move(passes[static_cast<std::size_t>(rank)]);
      this->backward(turn, place, rank, tape_of(rank, depth));
    }
    gradients_->reduce(action.on);
  }

  void backward(const Turn& turn, const std::string& place, int rank, nn::Tape& tape) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      Gradients::Own& own = gradients_->own(rank, i);
      nn::Parameter& parameter = *states_[i].parameter;
      const bool wanted = states_[i].trains && parameter.requires_grad;
      parameter.show_grad(wanted ? Tensor(own.values.data(), parameter.shape) : Tensor());
      parameter.has_grad = false;
    }
    model_.pass.in_backward = true;
    Owned<float> dy = input_of(program_, rank, turn, Input::gradient);
    const Tensor dx = model_.root().backward(tape, dy);
    if (turn.is_by_hand()) record(rank).add(place + "gradient of the input", dx.span<float>());
    record(rank).add(place + "hooks", model_.pass.seen);
    tape.end_backward();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      Gradients::Own& own = gradients_->own(rank, i);
      own.given = own.given || states_[i].parameter->has_grad;
    }
  }

  // Requires that no parameter trains which was frozen when it was sharded, because it has no
  // memory for a gradient.
  void require_unchanged() const {
    for (const State& state : states_) {
      if (state.trains || !state.parameter->requires_grad) continue;
      throw Refusal(state.parameter->name);
    }
  }

  // Requires that no backward is to come. It would compute with other weights than its forward.
  void require_no_backward() const {
    if (waiting_ > 0) throw Refusal("no backward to come");
  }

  // Ranks compare the first values when a pass begins, and a unit has values for each parameter
  // when it is used.
  void require_agreement() const {
    const bool differ = program_.first == First::mixed && world_.ranks > 1 && !states_.empty();
    if (differ) throw Refusal("first values");
  }
  void require_values(const fsdp::WrappedModule& unit) const {
    if (program_.first != First::partial) return;
    const auto is_last = [this](const nn::Parameter* p) { return p == states_.back().parameter; };
    if (std::ranges::any_of(unit.parameters, is_last)) throw Refusal("no values");
  }

  void show_parameters() {
    for (State& state : states_) {
      state.shown.values.assign(state.now.values.begin(), state.now.values.end());
      round(state.shown.values,
            state.precision ? state.precision->param_dtype : world_.param_dtype);
    }
    for (std::size_t u = 0; u < wrapped_.size(); ++u) {
      const DType dtype = precisions_[u] ? precisions_[u]->param_dtype : world_.param_dtype;
      if (dtype == DType::float8_e4m3) round_in_messages(world_, wrapped_[u], states_);
    }
  }

  Record& record(int rank) { return (*records_)[static_cast<std::size_t>(rank)]; }
  nn::Tape& tape_of(int rank, std::size_t depth) {
    while (tapes_.size() <= depth) tapes_.emplace_back();
    std::deque<nn::Tape>& tapes = tapes_[depth];
    while (tapes.size() <= static_cast<std::size_t>(rank)) tapes.emplace_back(context_);
    return tapes[static_cast<std::size_t>(rank)];
  }

  void record_parameters(const std::string& place) {
    require_agreement();
    for (const fsdp::WrappedModule& unit : wrapped_) require_values(unit);
    for (const State& state : states_) {
      for (Record& record : *records_) {
        record.add(place + state.parameter->name, state.now.values);
      }
    }
  }

  void step(const Action& action, const std::string& place) {
    const std::vector<Gradient> gradients = gradients_->reduced();
    Owned<float> coefficient({1});
    const float norm = norm_of(context_, world_, world_.tensor, states_, units_, gradients,
                               action.on ? kClip : 0, coefficient);
    for (Record& record : *records_) record.add(place + "norm", {&norm, 1});
    if (action.what != Do::step) return;
    require_no_backward();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (gradients[i]) update(context_, states_[i], *gradients[i], coefficient);
    }
    course_->updated();
  }

  Program program_;
  nanofsdp::Context context_;
  Model model_;
  std::vector<fsdp::WrappedModule> wrapped_;
  std::deque<State> states_;
  std::vector<std::vector<std::size_t>> units_;  // numbers of each unit's parameters that train
  std::vector<std::optional<fsdp::MixedPrecision>> precisions_;  // each unit's own, if it has one
  bool is_saved_ = false;
  int waiting_ = 0;                         // passes that wait for their backward
  std::deque<std::deque<nn::Tape>> tapes_;  // by the depth of passes inside passes, and by rank

  // The members below belong to the part that runs now.
  World world_;
  std::optional<Course> course_;
  std::optional<Gradients> gradients_;
  Records* records_ = nullptr;
};

}  // namespace models
