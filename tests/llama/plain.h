#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "22_your_own_model/training.h"
#include "fsdp/layout.h"
#include "fsdp/wrap.h"
#include "ops/adamw.h"
#include "ops/norm.h"
#include "support/tensors.h"

namespace lesson {

/// @file
/// @brief Lesson 22's training in the plainest form: one model that is never sharded computes each
/// rank's rows in turn, and adds up the gradients in the order of the ranks.
class Plain {
 public:
  Plain(int W, const Task& task, Values start)
      : W_(W), task_(task), values_(std::move(start)), model_(make_model(task)), tape_(context_) {
    give(*model_, values_);
    for (const fsdp::WrappedModule& unit : fsdp::wrap(*model_, fsdp::is_a<llama::Block>)) {
      std::vector<fsdp::ParameterSpec> specs;
      for (nn::Parameter* p : unit.parameters) {
        if (!p->requires_grad) continue;
        specs.push_back({p->name, p->shape});
        State& state = states_.emplace_back(*p);
        p->show_grad(state.of_rank);
      }
      layouts_.emplace_back(std::move(specs), W, 4);
    }
  }

  Run run() {
    Run run;
    for (int step = 0; step < task_.steps; ++step) {
      double loss = 0;
      for (int rank = 0; rank < W_; ++rank) loss += add_gradients(step, rank);
      run.losses.push_back(loss / static_cast<double>(task_.rows * task_.T));
      update(step);
    }
    run.values = values_;
    return run;
  }

 private:
  struct State {
    explicit State(nn::Parameter& p) : parameter(&p) {}
    nn::Parameter* parameter;
    nanofsdp::testing::Owned<float> of_rank{parameter->shape}, sum{parameter->shape};
    nanofsdp::testing::Owned<float> m{parameter->shape}, v{parameter->shape};
  };

  double add_gradients(int step, int rank) {
    const std::int64_t first = task_.rows * rank / W_, end = task_.rows * (rank + 1) / W_;
    Rows rows(end - first, task_.T);
    task_.text(step, first, rows);
    for (State& state : states_) std::ranges::fill(state.of_rank.values, 0.0f);
    double loss = 0;
    tape_.begin(/*training=*/true);
    const Tensor logits = model_->forward(tape_, rows.inputs());
    nn::cross_entropy(tape_, logits, rows.targets(), Tensor(&loss, {1}, DType::float64));
    const auto tokens = static_cast<float>(task_.rows * task_.T);
    model_->backward(tape_, nn::cross_entropy_backward(tape_, 1.0f / tokens));
    tape_.end_backward();
    for (State& state : states_) {
      for (std::size_t i = 0; i < state.sum.values.size(); ++i) {
        const float mine = state.of_rank.values[i];
        state.sum.values[i] = rank == 0 ? mine : state.sum.values[i] + mine;
      }
    }
    return loss;
  }

  // The norm is added up shard by shard; each rank sums its own squares first.
  void update(int step) {
    nanofsdp::testing::Owned<double> squares({W_});
    nanofsdp::testing::Owned<float> norm({1}), coefficient({1});
    for (int rank = 0; rank < W_; ++rank) {
      auto state = states_.begin();
      for (const fsdp::Layout& layout : layouts_) {
        for (std::size_t i = 0; i < layout.parameters().size(); ++i, ++state) {
          const fsdp::Range piece = layout.piece(i, rank).in_parameter;
          if (piece.empty()) continue;
          ops::squared_norm(*context_.compute,
                            {.x = state->sum.view().slice(piece.begin, piece.size()),
                             .out = squares.view().slice(rank, 1)});
        }
      }
    }
    ops::clip_coefficient(
        *context_.compute,
        {.squares = squares, .max_norm = 1, .norm = norm, .coefficient = coefficient});
    for (State& state : states_) {
      ops::adamw(*context_.compute, {.param = state.parameter->data,
                                     .grad = state.sum,
                                     .m = state.m,
                                     .v = state.v,
                                     .lr = task_.lr,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .weight_decay = state.parameter->shape.rank() >= 2 ? 0.1 : 0,
                                     .step = step + 1,
                                     .grad_scale = coefficient});
    }
  }

  int W_;
  const Task& task_;
  Values values_;
  std::unique_ptr<llama::Llama> model_;
  Context context_;
  nn::Tape tape_;
  std::deque<State> states_;
  std::vector<fsdp::Layout> layouts_;
};

}  // namespace lesson
