#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "05_replicate/replica.h"
#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/train.h"
#include "fsdp/collectives.h"
#include "ops/copy_chunks.h"

/// @file
/// @brief The parts of lesson 15 beside its idea: lesson 05's rank with a master copy of its
/// weights, and the library's run for comparison.

namespace lesson {

inline Tensor tensor(std::vector<float>& x) { return {x.data(), {std::ssize(x)}}; }
inline Tensor tensor(std::vector<bfloat16>& x) {
  return {x.data(), {std::ssize(x)}, DType::bfloat16};
}

/// Whether `rounded` and the library round a million random floats alike. Every second float lies
/// in the middle between two bfloat16 values.
inline bool rounds_as_library(bfloat16 (*rounded)(float)) {
  Generator generator(15);
  bool equal = true;
  for (int i = 0; i < 1000000; ++i) {
    const std::uint32_t word = generator.random();
    const auto x = std::bit_cast<float>(i % 2 == 0 ? word : (word & 0xffff0000u) | 0x8000u);
    equal = equal && (std::isnan(x) || rounded(x).bits == to_bfloat16(x).bits);
  }
  return equal;
}

/// Returns the library's sum over ranks. Each rank has one number, and sends it as bfloat16.
inline float library_sum(std::span<const float> of_rank) {
  float sum = 0;
  const int W = static_cast<int>(of_rank.size());
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    std::vector<float> row(of_rank.size(), of_rank[static_cast<std::size_t>(context.rank)]);
    std::vector<bfloat16> wire(row.size());
    fsdp::all_reduce(*context.compute, *world, tensor(row), {tensor(wire)}, comm::ReduceOp::sum,
                     {});
    if (context.rank == 0) sum = row[0];
  });
  return sum;
}

/// Gathers what has `in_float32` bytes on 2 ranks in eight bits, and says how many bytes a rank
/// receives.
inline std::string words_of_float8(std::int64_t in_float32) {
  const std::int64_t n = in_float32 / 4;  // the elements of a shard
  std::int64_t bytes = 0;
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    std::vector<float> shard(static_cast<std::size_t>(n), 1.0f), full(2 * shard.size());
    std::vector<float8_e4m3> wire(2 * static_cast<std::size_t>(ops::float8_bytes(n)));
    const Tensor messages(wire.data(), {std::ssize(wire)}, DType::float8_e4m3);
    fsdp::all_gather(*context.compute, world.get(), tensor(shard), tensor(full),
                     {messages, nullptr, n}, {});
    if (context.rank == 0) bytes = world->traffic().bytes_received;
  });
  return fmt::format("in float8_e4m3: {} bytes, {} of them scales", bytes, bytes - n);
}

inline constexpr int kSteps = 100;

/// Gradients are sent in the dtype of parameters, or in bfloat16 if that has eight bits.
inline train::TrainerOptions options(DType dtype) {
  train::TrainerOptions o = recipe();
  o.strategy = fsdp::ShardingStrategy::full_shard;
  o.precision = {dtype, dtype == DType::float8_e4m3 ? DType::bfloat16 : dtype};
  return o;
}

/// Lesson 05's rank. The optimizer updates `masters`. The lesson's `step` fills in the weights that
/// the model computes with.
struct Trainee : Replica {
  Trainee(Context& context, const train::TrainerOptions& o, const data::Dataset& text)
      : Replica(context, o, text), o(o), stream(*context.compute) {
    for (Owned& own : all) {
      const std::span<float> values = own.part(0).span<float>();
      masters.emplace_back(values.begin(), values.end());
    }
  }

  std::span<float> weight(std::size_t i) { return all[i].part(0).span<float>(); }
  std::span<float> gradient(std::size_t i) { return all[i].part(1).span<float>(); }

  /// Norm, clipping and AdamW.
  void update() {
    last_norm = norm();
    const double clip = std::min(o.grad_clip / (last_norm + 1e-6), 1.0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::ranges::copy(masters[i], weight(i).begin());
      lesson::update(stream, all[i], o, steps, clip);
      std::ranges::copy(weight(i), masters[i].begin());
    }
    ++steps;
  }

  /// How many layer norm weights have changed.
  int moved() const {
    int n = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].parameter->init.kind != nn::Init::Kind::ones) continue;
      for (const float weight : masters[i]) n += weight != 1;
    }
    return n;
  }

  std::vector<std::vector<float>> masters;
  train::TrainerOptions o;
  Stream& stream;
  int steps = 0;
  double last_loss = 0, last_norm = 0;
};

struct Run : Curve {
  Run() : Curve(kSteps) {}
  int moved = 0;
};

/// Trains on two ranks. Each calls `step` in every training step.
inline Run run(const std::function<void(comm::Communicator&, Trainee&)>& step) {
  Run run;
  const train::TrainerOptions o = options(DType::bfloat16);
  const data::Dataset text = data::load_dataset({}, o.block_size);
  std::vector<double> sums(2 * kSteps);
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    Trainee trainee(context, o, text);
    for (int s = 0; s < kSteps; ++s) {
      trainee.draw(text);
      step(*world, trainee);
      sums[static_cast<std::size_t>(2 * s + context.rank)] = trainee.last_loss;
      if (context.rank == 0) run.norms[s] = static_cast<float>(trainee.last_norm);
    }
    if (context.rank == 0) run.moved = trainee.moved();
  });
  for (std::size_t s = 0; s < kSteps; ++s) {
    run.losses[s] =
        (sums[2 * s] + sums[2 * s + 1]) / static_cast<double>(o.batch_size * o.block_size);
  }
  return run;
}

inline Curve library(DType dtype) {
  const train::TrainerOptions o = options(dtype);
  return train(2, kSteps, o, data::load_dataset({}, o.block_size));
}

/// Losses of some steps, and the first step whose loss is off by more than 1 in 1000 (0: none is).
inline std::string row(const Curve& run, const Curve& right) {
  std::string text;
  for (const int step : {1, 10, 50, 100}) {
    text += fmt::format("{:>9.2f}", run.losses[static_cast<std::size_t>(step - 1)]);
  }
  std::size_t off = 0;
  for (std::size_t s = 0; s < kSteps && off == 0; ++s) {
    if (std::abs(run.losses[s] - right.losses[s]) > 0.001 * right.losses[s]) off = s + 1;
  }
  return text + fmt::format("{:>10}", off);
}

inline float rounded_once(float x) { return to_float32(to_bfloat16(x)); }

/// A weight of 1 that gets the same update in every step, at first and after each step.
inline std::vector<double> updated(float update, int steps, bool in_bfloat16) {
  std::vector<double> values = {1};
  float weight = 1;
  for (int i = 0; i < steps; ++i) {
    weight += update;
    if (in_bfloat16) weight = rounded_once(weight);
    values.push_back(weight);
  }
  return values;
}

/// Draws such weights over 200 updates, and leaves room below.
inline Svg drawing() {
  const std::vector<double> four[] = {updated(0.001f, 200, true), updated(0.001f, 200, false),
                                      updated(0.004f, 200, false), updated(0.004f, 200, true)};
  constexpr int kLeft = 40, kTop = 50, kBelow = 290, kStep = 6, kOne = 200;  // pixels
  Svg svg(500, 660);
  svg.text(8, 18, "A weight of 1 that gets the same update 200 times.");
  svg.text(8, 38, "weight");
  for (int tenths = 10; tenths <= 20; tenths += 2) {
    const int y = kBelow - kOne * (tenths - 10) / 10 - 20;
    svg.line(kLeft, y, kLeft + 50 * kStep, y, colour::grey);
    svg.text(kLeft - 6, y + 5, fmt::format("{:.1f}", tenths / 10.0), Svg::At::end);
  }
  svg.line(kLeft, kTop, kLeft, kBelow - 10);
  svg.line(kLeft, kBelow - 10, kLeft + 50 * kStep, kBelow - 10);
  for (int update = 0; update <= 200; update += 50) {
    const int x = kLeft + update / 4 * kStep;
    svg.line(x, kBelow - 10, x, kBelow - 5);
    svg.text(x, kBelow + 10, std::to_string(update), Svg::At::middle);
  }
  svg.text(kLeft + 50 * kStep, kBelow + 30, "updates", Svg::At::end);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<double> every_4th;
    for (std::size_t n = 0; n < four[i].size(); n += 4) every_4th.push_back(four[i][n] - 1);
    const bool in_bfloat16 = i % 3 == 0;
    svg.curve(kLeft, kBelow - 20, kStep, kOne, every_4th,
              in_bfloat16 ? colour::ink : colour::parameters);
    svg.text(
        kLeft + 50 * kStep + 6, kBelow - 15 - static_cast<int>(kOne * every_4th.back()),
        fmt::format("+{}, {}", i < 2 ? "0.001" : "0.004", in_bfloat16 ? "bfloat16" : "float32"));
  }
  return svg;
}

}  // namespace lesson
