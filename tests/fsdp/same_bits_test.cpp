#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "ops/adamw.h"
#include "ops/norm.h"
#include "support/ranks.h"
#include "support/tiny_training.h"
#include "support/whole_model.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::kTiny;
using testing::Owned;
using testing::TinyOptions;
using testing::TinyTraining;
using testing::WholeModel;

std::vector<std::vector<float>> train(Backend backend, int world, const TinyOptions& options) {
  return testing::run_ranks(backend, world,
                            [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                              return TinyTraining(context, std::move(group), options).run();
                            });
}

// Data parallel training written out on one process: the gradient of each rank's rows by itself,
// summed in rank order; squares summed shard by shard; AdamW on each whole parameter.
class Reference {
 public:
  explicit Reference(int world) : world_(world), memory_(model_), tape_(context_) {
    memory_.initialise(model_.nanogpt_draws(), 1337);
    for (const auto& unit : wrap(model_, [](const nn::Module& m) {
           return dynamic_cast<const gpt::Block*>(&m) != nullptr;
         })) {
      std::vector<ParameterSpec> specs;
      for (nn::Parameter* p : unit.parameters) {
        specs.push_back({p->name, {p->shape.dims().begin(), p->shape.dims().end()}});
        order_.push_back(p);
      }
      layouts_.emplace_back(std::move(specs), world, 4);
    }
    for (nn::Parameter* p : order_) {
      sums_.emplace_back(p->shape);
      m_.emplace_back(p->shape);
      v_.emplace_back(p->shape);
    }
  }

  // What TinyTraining::run of rank `rank` records.
  std::vector<std::vector<float>> run() {
    std::vector<std::vector<float>> records(static_cast<std::size_t>(world_));
    for (std::int64_t step = 0; step < testing::kTinySteps; ++step) {
      for (int rank = 0; rank < world_; ++rank) {
        records[rank].push_back(add_gradients(step, rank));
      }
      const float norm = update(step);
      for (auto& record : records) record.push_back(norm);
    }
    for (nn::Parameter* p : order_) {
      const auto values = p->data.span<float>();
      for (auto& record : records) record.insert(record.end(), values.begin(), values.end());
    }
    return records;
  }

 private:
  float add_gradients(std::int64_t step, int rank) {
    const std::int64_t count = testing::kRows / world_, first = rank * count;
    Owned<std::int32_t> x = testing::tiny_tokens(step, 0, first, count, 0);
    Owned<std::int32_t> y = testing::tiny_tokens(step, 0, first, count, 1);
    Owned<double> total({1});
    memory_.zero_grad();
    tape_.begin(true, {.seed = 1, .iteration = step, .micro_step = 0, .first_row = first});
    gpt::cross_entropy(tape_, model_.forward(tape_, x), y, total);
    const auto tokens = static_cast<float>(testing::kRows * kTiny.block_size);
    model_.backward(tape_, gpt::cross_entropy_backward(tape_, 1 / tokens));
    tape_.end_backward();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (std::size_t e = 0; e < sums_[i].values.size(); ++e) {
        const float g = order_[i]->grad.f32()[e];
        sums_[i].values[e] = rank == 0 ? g : sums_[i].values[e] + g;
      }
    }
    return static_cast<float>(total.values[0]);
  }

  float update(std::int64_t step) {
    Owned<double> squares({world_});
    for (int rank = 0; rank < world_; ++rank) {
      std::size_t at = 0;
      for (const FlatLayout& layout : layouts_) {
        for (std::size_t i = 0; i < layout.parameters().size(); ++i, ++at) {
          const Range piece = layout.piece(i, rank).in_parameter;
          if (piece.empty()) continue;
          ops::squared_norm(*context_.compute,
                            {.x = sums_[at].view().slice(piece.begin, piece.size()),
                             .out = squares.view().slice(rank, 1)});
        }
      }
    }
    Owned<float> norm({1}), coefficient({1});
    ops::clip_coefficient(*context_.compute, {.squares = squares,
                                              .max_norm = testing::kTinyClip,
                                              .norm = norm,
                                              .coefficient = coefficient});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      ops::adamw(*context_.compute, {.param = order_[i]->data,
                                     .grad = sums_[i],
                                     .m = m_[i],
                                     .v = v_[i],
                                     .lr = testing::kTinyLearningRate,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .weight_decay = order_[i]->shape.rank() >= 2 ? 0.1 : 0,
                                     .step = step + 1,
                                     .grad_scale = coefficient});
    }
    return norm.values[0];
  }

  int world_;
  Context context_;
  gpt::GPT model_{kTiny};
  WholeModel memory_;
  nn::Tape tape_;
  std::vector<FlatLayout> layouts_;
  std::vector<nn::Parameter*> order_;  // unit by unit
  std::vector<Owned<float>> sums_, m_, v_;
};

class SameBits : public ::testing::TestWithParam<std::tuple<Backend, int>> {};

// Promise 1: at a fixed world size, every way to shard and to schedule gives the same bits: losses,
// gradient norms and final weights, those of a reference that adds the ranks up in order.
TEST_P(SameBits, WhateverTheStrategyAndTheSchedule) {
  const auto [backend, world] = GetParam();
  const auto expected = Reference(world).run();
  for (const ShardingStrategy& strategy : {kFullShard, kNoShard}) {
    for (const BackwardPrefetch prefetch : {BackwardPrefetch::none, BackwardPrefetch::pre}) {
      for (const bool poison : {false, true}) {
        EXPECT_EQ(
            train(backend, world, {.strategy = strategy, .prefetch = prefetch, .poison = poison}),
            expected)
            << name_of(strategy) << (prefetch == BackwardPrefetch::pre ? " pre" : " none")
            << (poison ? " poisoned" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits,
                         ::testing::Combine(::testing::ValuesIn(testing::backends()),
                                            ::testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return testing::name_of(std::get<0>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Another number of ranks adds in another order, and nothing else.
TEST(WorldSize, ChangesNoMoreThanRounding) {
  const auto sum_of_losses = [](const std::vector<std::vector<float>>& records, std::size_t at) {
    double sum = 0;
    for (const auto& record : records) sum += record[at];
    return sum;
  };
  const auto one = train(Backend::self, 1, {});
  for (const int world : {2, 3, 4}) {
    const auto many = train(Backend::local, world, {});
    for (std::size_t step = 0; step < testing::kTinySteps; ++step) {
      EXPECT_NEAR(sum_of_losses(many, 2 * step) / sum_of_losses(one, 2 * step), 1, 1e-6);
      EXPECT_NEAR(many[0][2 * step + 1] / one[0][2 * step + 1], 1, 1e-6);
    }
  }
}

// Micro-steps of a third of the rows add up to the same gradient, summed in shards or in full.
TEST(Accumulation, GivesTheGradientOfAllMicroSteps) {
  for (const ShardingStrategy& strategy : {kFullShard, kNoShard}) {
    const auto one = train(Backend::self, 1, {.strategy = strategy, .micro_steps = 3});
    const auto two = train(Backend::local, 2, {.strategy = strategy, .micro_steps = 3});
    for (std::size_t step = 0; step < testing::kTinySteps; ++step) {
      EXPECT_NEAR((two[0][2 * step] + two[1][2 * step]) / one[0][2 * step], 1, 1e-6);
      EXPECT_NEAR(two[0][2 * step + 1] / one[0][2 * step + 1], 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
