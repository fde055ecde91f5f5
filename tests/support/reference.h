#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fsdp/layout.h"
#include "fsdp/wrap.h"
#include "nn/loss.h"
#include "ops/adamw.h"
#include "ops/norm.h"
#include "support/messages.h"
#include "support/tiny_training.h"
#include "support/whole_model.h"

namespace nanofsdp::testing {

/// @file
/// @brief Data parallel training in one process. TinyTraining is compared with it bit for bit. It
/// computes the gradient of each rank's rows by itself, and sums over a group's ranks in order,
/// then over groups. It sums squares shard by shard, and applies AdamW to each whole parameter.
/// If replicas split the update, there is a shard for each rank. Those of a group are neighbours,
/// but their sums are added in the order of the ranks.

/// @param world number of ranks
class Reference {
 public:
  Reference(int world, const TinyOptions& options)
      : world_(world),
        group_(options.shard_size == 0 ? world : options.shard_size),
        owners_(sharding_of(options.strategy).splits_update ? world : group_),
        options_(options),
        memory_(model_),
        tape_(context_) {
    memory_.initialise(model_.nanogpt_draws(), 1337);
    for (const auto& unit : fsdp::wrap(model_, fsdp::is_a<gpt::Block>)) {
      std::vector<fsdp::ParameterSpec> specs;
      for (nn::Parameter* p : unit.parameters) {
        specs.push_back({p->name, p->shape});
        order_.push_back(p);
      }
      layouts_.emplace_back(std::move(specs), owners_, 4, options.layout);
    }
    for (nn::Parameter* p : order_) {
      masters_.emplace_back(p->shape);
      copy(p->data.span<float>(), masters_.back().values);
      sums_.emplace_back(p->shape);
      m_.emplace_back(p->shape);
      v_.emplace_back(p->shape);
    }
  }

  /// The results that TinyTraining::run of each rank returns.
  std::vector<std::vector<float>> run() {
    std::vector<std::vector<float>> records(static_cast<std::size_t>(world_));
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      for (std::size_t i = 0; i < order_.size(); ++i) {
        copy(masters_[i].values, order_[i]->data.span<float>());
        round(order_[i]->data.span<float>(), options_.precision.param_dtype);
      }
      if (options_.precision.param_dtype == DType::float8_e4m3) round_in_messages();
      for (auto& record : records) record.push_back(0);
      add_gradients(step, records);
      const float norm = update(step);
      for (auto& record : records) record.push_back(norm);
    }
    for (const Owned<float>& master : masters_) {
      for (auto& record : records) {
        record.insert(record.end(), master.values.begin(), master.values.end());
      }
    }
    return records;
  }

 private:
  using Gradients = std::vector<std::vector<float>>;  // one for each parameter

  static void copy(std::span<const float> from, std::span<float> to) {
    std::ranges::copy(from, to.begin());
  }
  static void round(std::span<float> x, DType dtype) {
    if (dtype != DType::bfloat16) return;
    for (float& v : x) v = to_float32(to_bfloat16(v));
  }
  void round_in_messages() {
    auto next = order_.begin();
    for (const fsdp::Layout& layout : layouts_) {
      std::vector<std::span<float>> parameters;
      while (parameters.size() < layout.parameters().size())
        parameters.push_back((*next++)->data.span<float>());
      const bool sent = world_ > 1 && sharding_of(options_.strategy).optimizer;
      testing::round_in_messages(layout, sent, parameters);
    }
  }
  static void add(const Gradients& from, Gradients& to) {
    if (to.empty())
      to = from;  // the first gradient is copied
    else
      for (std::size_t i = 0; i < to.size(); ++i)
        for (std::size_t e = 0; e < to[i].size(); ++e) to[i][e] += from[i][e];
  }

  bool reduces_each_micro_step() const {
    return sharding_of(options_.strategy).gradients && !options_.no_sync;
  }

  void add_gradients(std::int64_t step, std::vector<std::vector<float>>& records) {
    std::vector<double> losses(static_cast<std::size_t>(world_));
    Gradients total;
    for (int first = 0; first < world_; first += group_) {
      Gradients of_group;
      // All micro-steps of a rank are added up before they are reduced, or each is reduced by
      // itself.
      const std::int64_t times = reduces_each_micro_step() ? options_.micro_steps : 1;
      for (std::int64_t time = 0; time < times; ++time) {
        Gradients reduced;
        for (int rank = first; rank < first + group_; ++rank) {
          memory_.zero_grad();
          const std::int64_t end = times > 1 ? time + 1 : options_.micro_steps;
          for (std::int64_t m = time; m < end; ++m) losses[rank] += micro_step(step, m, rank);
          Gradients mine;
          for (nn::Parameter* p : order_) {
            const std::span<float> grad = p->grad().span<float>();
            round(grad, options_.precision.reduce_dtype);
            mine.emplace_back(grad.begin(), grad.end());
          }
          add(mine, reduced);
        }
        add(reduced, of_group);
      }
      add(of_group, total);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) copy(total[i], sums_[i].values);
    for (int rank = 0; rank < world_; ++rank) {
      records[rank].back() = static_cast<float>(losses[rank]);
    }
  }

  double micro_step(std::int64_t step, std::int64_t m, int rank) {
    const std::int64_t count = kRows / world_, first = rank * count;
    Owned<std::int32_t> x = tiny_tokens(step, m, first, count, 0);
    Owned<std::int32_t> y = tiny_tokens(step, m, first, count, 1);
    Owned<double> total({1});
    tape_.begin(true, {.seed = 1, .iteration = step, .micro_step = m, .first_row = first});
    nn::cross_entropy(tape_, model_.forward(tape_, x), y, total);
    const auto tokens = static_cast<float>(kRows * kTiny.block_size * options_.micro_steps);
    model_.backward(tape_, nn::cross_entropy_backward(tape_, 1 / tokens));
    tape_.end_backward();
    return total.values[0];
  }

  float update(std::int64_t step) {
    Owned<double> squares({owners_});
    for (int rank = 0; rank < owners_; ++rank) {
      const int owner = rank % group_ * (owners_ / group_) + rank / group_;
      std::size_t at = 0;
      for (const auto& layout : layouts_) {
        for (std::size_t i = 0; i < layout.parameters().size(); ++i, ++at) {
          const fsdp::Range piece = layout.piece(i, owner).in_parameter;
          if (piece.empty()) continue;
          ops::squared_norm(*context_.compute,
                            {.x = sums_[at].view().slice(piece.begin, piece.size()),
                             .out = squares.view().slice(rank, 1)});
        }
      }
    }
    Owned<float> norm({1}), coefficient({1});
    ops::clip_coefficient(
        *context_.compute,
        {.squares = squares, .max_norm = options_.clip, .norm = norm, .coefficient = coefficient});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      ops::adamw(*context_.compute, {.param = masters_[i],
                                     .grad = sums_[i],
                                     .m = m_[i],
                                     .v = v_[i],
                                     .lr = kTinyLearningRate,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .weight_decay = order_[i]->shape.rank() >= 2 ? 0.1 : 0,
                                     .step = step + 1,
                                     .grad_scale = coefficient});
    }
    return norm.values[0];
  }

  int world_;
  int group_;
  int owners_;
  TinyOptions options_;
  Context context_;
  gpt::GPT model_{kTiny};
  WholeModel memory_;
  nn::Tape tape_;
  std::vector<fsdp::Layout> layouts_;
  std::vector<nn::Parameter*> order_;  // unit by unit
  std::vector<Owned<float>> masters_, sums_, m_, v_;
};

}  // namespace nanofsdp::testing
