#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"
#include "fsdp/layout.h"

/// @file
/// @brief The rows of lesson 16, and the gradients that the library computes from them.

namespace lesson {

using namespace nanofsdp;

inline constexpr int kRanks = 3, kMicroSteps = 4, kRowsOfARank = 2;  // in a micro-batch

/// @param unequal the rows of rank 1 count half of their tokens, those of rank 2 a quarter
inline Rows rows_of(std::int64_t first, std::int64_t count, bool unequal = false) {
  Rows rows(nanogpt(65), first, count);
  for (std::int64_t i = 0; i < count * rows.T; ++i) {
    const std::int64_t rank = (first + i / rows.T) / kRowsOfARank % kRanks;
    if (unequal && i % rows.T >= rows.T >> rank) rows.targets[i] = -1;
  }
  return rows;
}

/// How many tokens count.
inline std::int64_t counted(const Rows& rows) {
  return std::ranges::count_if(rows.targets, [](std::int32_t target) { return target >= 0; });
}

/// How to compute one gradient.
struct Setup {
  int W = kRanks, micro_steps = kMicroSteps, rows = kRanks * kRowsOfARank;  // rows of a micro-step
  bool no_sync = false, unequal = false;
  comm::ReduceOp reduction = comm::ReduceOp::average;
};

using Shards = std::vector<std::vector<float>>;  // the shards of one rank, one for each unit

/// The result: the shards of all ranks, and what rank 0 did for it.
struct Gradient {
  std::vector<Shards> of_rank{};
  float norm = 0, coefficient = 0;
  comm::Traffic traffic{};
  std::int64_t whole_bytes = 0;  // bytes of unsharded gradients
};

/// The library's gradient. With `average`, each rank divides by its own tokens; with `sum`, by the
/// tokens of all ranks.
inline Gradient library(const Setup& setup) {
  const int W = setup.W, M = setup.micro_steps, count = setup.rows / W;
  Gradient result{.of_rank = std::vector<Shards>(static_cast<std::size_t>(W))};
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    fsdp::Options options{.no_sync = setup.no_sync, .reduction = setup.reduction, .alignment = 1};
    ShardedRank rank(context, std::move(world), nanogpt(65), options);
    rank.sharded.zero_grad();
    for (int m = 0; m < M; ++m) {
      const Rows mine = rows_of((m * W + context.rank) * count, count, setup.unequal);
      const bool sum = setup.reduction == comm::ReduceOp::sum;
      const std::int64_t tokens = counted(sum ? rows_of(0, setup.rows, setup.unequal) : mine);
      rank.forward_backward(mine, 1.0f / static_cast<float>(M * tokens), m + 1 == M);
    }
    rank.norm.compute(rank.sharded.units(), /*max_norm=*/1);
    for (const fsdp::Unit& unit : rank.sharded.units()) {
      const std::span<float> shard = unit.rows()[0].gradient_shard().span<float>();
      result.of_rank[context.rank].emplace_back(shard.begin(), shard.end());
    }
    if (context.rank != 0) return;
    result.norm = *rank.norm.norm().f32(), result.coefficient = *rank.norm.coefficient().f32();
    result.traffic = rank.mesh.traffic();
    result.whole_bytes = context.ledger.count(MemoryClass::unsharded_gradients).reserved;
  });
  return result;
}

/// A rank that shards nothing: lesson 05's replica, in lesson 07's rows.
struct WholeRank {
  explicit WholeRank(Context& context) : model(nanogpt(65)), tape(context) {
    for (const fsdp::WrappedModule& unit : fsdp::wrap(model, is_block)) {
      units.emplace_back(context, unit.parameters, context.rank, context.world_size,
                         /*kept=*/fsdp::Sharding{}, /*alignment=*/1);
      units.back().show_parameters();
      units.back().show_gradients();
    }
    Generator generator(1337);
    for (const auto& [p, init] : model.nanogpt_draws()) {
      nn::draw(generator, init, p->data.span<float>());
    }
  }
  /// Adds the gradient of the mean over the rows' tokens, divided by the number of micro-steps.
  void backward(const Rows& rows) {
    pass(
        tape, rows, 1.0f / static_cast<float>(kMicroSteps * counted(rows)),
        [&](Tensor x) { return model.forward(tape, x); },
        [&](Tensor d) { model.backward(tape, d), tape.end_backward(); });
  }

  /// Lesson 08's layout of each unit.
  std::vector<fsdp::Layout> layouts() const {
    std::vector<fsdp::Layout> all;
    for (const fsdp::ShardedParameters& unit : units) {
      const auto parameters = unit.layout().parameters();
      all.push_back({{parameters.begin(), parameters.end()}, kRanks});
    }
    return all;
  }

  gpt::GPT model;
  nn::Tape tape;
  std::deque<fsdp::ShardedParameters> units;
};

/// The largest difference between the elements of two gradients, on rank 0.
inline float largest_difference(const Gradient& a, const Gradient& b) {
  float largest = 0;
  for (std::size_t u = 0; u < a.of_rank[0].size(); ++u) {
    const std::vector<float>&x = a.of_rank[0][u], &y = b.of_rank[0][u];
    for (std::size_t e = 0; e < x.size(); ++e) largest = std::max(largest, std::abs(x[e] - y[e]));
  }
  return largest;
}

/// A shard of ones after each micro-step: right, and scaled in the wrong place.
inline Svg drawing(const std::vector<float>& right, const std::vector<float>& wrong) {
  constexpr int kLeft = 40, kBelow = 250, kOne = 32;  // pixels
  Svg svg(480, 312);
  svg.text(8, 18, "The shard after each micro-step. Every gradient is 1.");
  svg.text(8, 38, "value");
  for (int value = 0; value <= 6; ++value) {
    const int y = kBelow - kOne * value;
    svg.line(kLeft, y, 460, y, value == 0 ? colour::ink : colour::grey);
    svg.text(kLeft - 6, y + 5, std::to_string(value), Svg::At::end);
  }
  for (std::size_t m = 0; m < right.size(); ++m) {
    const int x = kLeft + 12 + 102 * static_cast<int>(m);
    const auto bar = [&](int left, float value, std::string_view words) {
      const int height = static_cast<int>(kOne * value);
      svg.rect(left, kBelow - height, 44, height, colour::gradients);
      svg.text(left + 22, kBelow - 5 - height, fmt::format("{:.6g}", value), Svg::At::middle);
      svg.text(left + 22, kBelow + 16, words, Svg::At::middle);
    };
    bar(x, right[m], "right");
    bar(x + 46, wrong[m], "wrong");
    svg.text(x + 45, kBelow + 34, fmt::format("{}", m + 1), Svg::At::middle);
  }
  svg.text(460, kBelow + 52, "micro-step", Svg::At::end);
  return svg;
}

}  // namespace lesson
