#pragma once

#include <deque>
#include <numeric>
#include <optional>

#include "fsdp/layout.h"
#include "fsdp/wrap.h"
#include "models/record.h"
#include "models/training.h"
#include "ops/adamw.h"
#include "ops/norm.h"

namespace models {

/// @file
/// @brief Data parallel training of a program as plain as can be: one model that is never sharded,
/// never recomputed, and computes each rank's rows in turn.
///
/// What a strategy decides here is the order of the sums alone. A parameter that no rank used in a
/// step has no gradient: it is not in the norm, and neither updated nor decayed.
class Reference {
 public:
  explicit Reference(const Program& program)
      : program_(program), model_(program, /*recompute=*/false), records_(program.ranks) {
    for (nn::Parameter* parameter : model_.root().named_parameters()) {
      State& state = states_.emplace_back(*parameter);
      state.values = first_values(program, *parameter, states_.size() - 1);
      round(state.values.values, parameter->dtype);
      parameter->data = state.shown;
      if (parameter->requires_grad) parameter->show_grad(state.gradient);
    }
  }

  Records run() {
    for (int step = 0; step < program_.steps; ++step) {
      show_parameters();
      for (int rank = 0; program_.false_start && rank < program_.ranks; ++rank) {
        passes(step, -1, rank);
      }
      const Gradients gradients = gradients_of(step);
      Owned<float> coefficient({1});
      const float norm = norm_of(gradients, coefficient);
      for (Record& record : records_) record.add(fmt::format("step {}: norm", step), {&norm, 1});
      update(gradients, coefficient);
    }
    for (const State& state : states_) {
      const std::string& name = state.parameter->name;
      for (Record& record : records_) {
        record.add("at the end: " + name, state.values.values);
        record.slices.push_back({name, 0, state.values.values, state.moment(state.m),
                                 state.moment(state.v), state.steps});
      }
    }
    return records_;
  }

 private:
  struct State {
    explicit State(nn::Parameter& parameter) : parameter(&parameter) {}

    nn::Parameter* parameter;
    Owned<float> values{parameter->shape};  // what the optimizer updates
    Owned<float> shown{parameter->shape};   // what the model computes with
    Owned<float> gradient{parameter->shape};
    Owned<float> m{parameter->shape}, v{parameter->shape};
    std::int64_t steps = 0;

    std::vector<float> moment(const Owned<float>& x) const {
      return parameter->requires_grad ? x.values : std::vector<float>();
    }
  };

  // Of one parameter: its elements, or none.
  using Gradient = std::optional<std::vector<float>>;
  using Gradients = std::vector<Gradient>;  // of all parameters

  static void round(std::vector<float>& x, nanofsdp::DType dtype) {
    if (dtype == nanofsdp::DType::float32) return;
    for (float& value : x) value = nanofsdp::to_float32(nanofsdp::to_bfloat16(value));
  }

  static void add(const Gradients& from, Gradients& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!from[i]) continue;
      if (!to[i]) {
        to[i] = from[i];
        continue;
      }
      for (std::size_t e = 0; e < to[i]->size(); ++e) (*to[i])[e] += (*from[i])[e];
    }
  }

  // What is left of a sum over `ranks`.
  void finish(Gradients& sums, int ranks) const {
    if (!program_.average) return;
    for (Gradient& sum : sums) {
      if (!sum) continue;
      for (float& x : *sum) x *= 1.0F / static_cast<float>(ranks);
    }
  }

  const nanofsdp::fsdp::Sharding& sharding() const {
    return nanofsdp::fsdp::sharding_of(program_.strategy);
  }
  int group() const {
    return sharding().replicates && program_.shard_size > 0 ? program_.shard_size : program_.ranks;
  }

  void show_parameters() {
    for (State& state : states_) {
      state.shown.values = state.values.values;
      round(state.shown.values, program_.param_dtype);
    }
  }

  // Over all ranks: each group sums its own, in order, then the groups are summed.
  Gradients gradients_of(int step) {
    Gradients total(states_.size());
    if (!program_.set_to_none) {
      for (std::size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].parameter->requires_grad)
          total[i].emplace(states_[i].gradient.values.size());
      }
    }
    for (int first = 0; first < program_.ranks; first += group()) {
      add(of_group(step, first), total);
    }
    if (sharding().replicates) finish(total, program_.ranks / group());
    return total;
  }

  // Either each micro-step is reduced by itself, or a rank adds up its own before.
  Gradients of_group(int step, int first) {
    const bool each = sharding().gradients && !program_.no_sync && program_.ranks > 1;
    const int count = each ? 1 : program_.micro_steps;
    Gradients sum(states_.size());
    for (int micro_step = 0; micro_step < program_.micro_steps; micro_step += count) {
      Gradients reduced(states_.size());
      for (int rank = first; rank < first + group(); ++rank) {
        add(of_rank(step, micro_step, count, rank), reduced);
      }
      finish(reduced, group());
      for (Gradient& gradient : reduced) round_to_wire(gradient);
      add(reduced, sum);
    }
    return sum;
  }

  Gradients of_rank(int step, int micro_step, int count, int rank) {
    for (State& state : states_) {
      std::ranges::fill(state.gradient.values, 0.0F);
      state.parameter->has_grad = false;
    }
    for (int m = micro_step; m < micro_step + count; ++m) passes(step, m, rank);
    Gradients mine;
    for (const State& state : states_) {
      Gradient& gradient = mine.emplace_back();
      if (state.parameter->has_grad) gradient = state.gradient.values;
      round_to_wire(gradient);
    }
    return mine;
  }

  void round_to_wire(Gradient& gradient) const {
    if (gradient && program_.ranks > 1) round(*gradient, program_.reduce_dtype);
  }

  void passes(int step, int micro_step, int rank) {
    Record& record = records_[static_cast<std::size_t>(rank)];
    const std::string place = place_of(step, micro_step);
    rows_.clear();
    if (program_.between == Between::summon) {
      for (const State& state : states_) {
        record.add(place + state.parameter->name, state.values.values);
      }
    } else if (program_.between != Between::nothing) {
      pass_without_backward(tape_, step, micro_step, rank, place + "before");
    }
    const Turn turn{step, micro_step};
    record.add(place + "output", forward(tape_, turn, rank).span<float>());
    if (program_.meanwhile) {
      const Pass under_way = model_.pass;
      pass_without_backward(other_tape_, step, micro_step, rank, place + "meanwhile");
      model_.pass = under_way;
    }
    Owned<float> dy = input_of(program_, rank, turn, Input::gradient);
    const Tensor dx = model_.root().backward(tape_, dy);
    record.add(place + "gradient of the input", dx.span<float>());
    tape_.end_backward();
  }

  void pass_without_backward(nn::Tape& tape, int step, int micro_step, int rank,
                             const std::string& place) {
    const Tensor y = forward(tape, {step, micro_step, /*between=*/true}, rank);
    records_[static_cast<std::size_t>(rank)].add(place, y.span<float>());
    tape.end();
  }

  Tensor forward(nn::Tape& tape, const Turn& turn, int rank) {
    model_.pass = pass_of(program_, rank, turn);
    tape.begin(/*training=*/!turn.between);
    rows_.push_back(input_of(program_, rank, turn, Input::rows));
    return model_.root().forward(tape, rows_.back());
  }

  // Squares are added up shard by shard, in each shard unit by unit.
  float norm_of(const Gradients& gradients, Owned<float>& coefficient) {
    Owned<double> squares({group()});
    for (int shard = 0; shard < group(); ++shard) {
      for (const auto& unit : units()) {
        const auto layout = layout_of(unit);
        for (std::size_t p = 0; p < unit.size(); ++p) {
          const auto piece = layout.piece(p, shard).in_parameter;
          Gradient gradient = gradients[unit[p]];
          if (piece.empty() || !gradient) continue;
          const Tensor x(gradient->data(), {layout.in_whole(p).size()});
          ops::squared_norm(*context_.compute, {.x = x.slice(piece.begin, piece.size()),
                                                .out = squares.view().slice(shard, 1)});
        }
      }
    }
    Owned<float> norm({1});
    ops::clip_coefficient(
        *context_.compute,
        {.squares = squares, .max_norm = kClip, .norm = norm, .coefficient = coefficient});
    return norm.values[0];
  }

  // The states of each unit's parameters that train.
  std::vector<std::vector<std::size_t>> units() {
    std::vector<std::vector<std::size_t>> units;
    const auto is_unit = [&](const nn::Module& module) { return model_.is_unit(module); };
    for (const auto& unit : nanofsdp::fsdp::wrap(model_.root(), is_unit)) {
      std::vector<std::size_t>& members = units.emplace_back();
      for (const nn::Parameter* parameter : unit.parameters) {
        const auto is_its = [&](const State& state) { return state.parameter == parameter; };
        const auto state = std::ranges::find_if(states_, is_its);
        if (parameter->requires_grad) {
          members.push_back(static_cast<std::size_t>(state - states_.begin()));
        }
      }
    }
    return units;
  }

  nanofsdp::fsdp::Layout layout_of(const std::vector<std::size_t>& unit) {
    std::vector<nanofsdp::fsdp::ParameterSpec> specs;
    for (const std::size_t i : unit) {
      specs.push_back({states_[i].parameter->name, states_[i].parameter->shape});
    }
    return {std::move(specs), group(), std::lcm(program_.alignment, program_.ranks / group()),
            program_.layout};
  }

  void update(Gradients gradients, Owned<float>& coefficient) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!gradients[i]) continue;
      State& state = states_[i];
      const nanofsdp::Shape& shape = state.parameter->shape;
      ops::adamw(*context_.compute, {.param = state.values,
                                     .grad = Tensor(gradients[i]->data(), shape),
                                     .m = state.m,
                                     .v = state.v,
                                     .lr = kLearningRate,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .weight_decay = shape.rank() >= 2 ? kWeightDecay : 0,
                                     .step = ++state.steps,
                                     .grad_scale = coefficient});
    }
  }

  Program program_;
  nanofsdp::Context context_;
  Model model_;
  nn::Tape tape_{context_}, other_tape_{context_};
  std::deque<Owned<float>> rows_;  // of the passes under way
  std::deque<State> states_;
  Records records_;
};

}  // namespace models
