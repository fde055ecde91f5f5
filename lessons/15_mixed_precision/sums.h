#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "trainee.h"

/// @file
/// @brief How wrong the sum of W ranks' gradients is, if bfloat16 is sent. Up to 1024 ranks take
/// turns on one processor: each is one row of a batch.

namespace lesson {

/// Sums of one element of the gradient, over the ranks so far.
struct Sums {
  double exact = 0;
  float in_float32 = 0;        // float32 is sent and added
  float ring = 0;              // each rank adds its number, rounds, and sends the sum on
  std::vector<float> pairs{};  // sums of 1, 2, 4, ... ranks that wait for a sum of as many ranks
  float owner = 0;             // bfloat16 is sent, and the owner adds in float32

  /// @param rank the number of the rank, from 0
  //! [three_ways]
  void add(float g, unsigned rank) {
    const float sent = rounded_once(g);
    exact += g;
    in_float32 += g;
    ring = rounded_once(ring + sent);
    owner += sent;
    pairs.push_back(sent);
    for (; rank % 2 == 1; rank /= 2) {  // two sums of as many ranks are added and sent on
      const float right = pairs.back();
      pairs.pop_back();
      pairs.back() = rounded_once(pairs.back() + right);
    }
  }
  //! [three_ways]

  /// The sum that reaches the root of the tree.
  float tree() const {
    float sum = 0;
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) sum = rounded_once(sum + *pair);
    return sum;
  }
};

/// The errors of all sums over W ranks: the root of their mean square, in percent of the exact
/// sums'.
struct SumErrors {
  int W = 0;
  double ring = 0, tree = 0, owner = 0, in_float32 = 0;
};

inline SumErrors errors_of(std::span<const Sums> all, int W) {
  SumErrors off{.W = W};
  double scale = 0;
  const auto add = [](double& to, double x) { to += x * x; };
  for (const Sums& sums : all) {
    add(scale, sums.exact);
    add(off.ring, sums.ring - sums.exact);
    add(off.tree, sums.tree() - sums.exact);
    add(off.owner, sums.owner - sums.exact);
    add(off.in_float32, sums.in_float32 - sums.exact);
  }
  for (double* error : {&off.ring, &off.tree, &off.owner, &off.in_float32}) {
    *error = 100 * std::sqrt(*error / scale);
  }
  return off;
}

inline constexpr int kCounts[] = {2, 4, 8, 16, 32, 64, 96, 128, 256, 384, 512, 1024};
inline constexpr int kPrinted[] = {2, 8, 32, 96, 384, 1024};

/// Trains lesson 05's model for 50 steps. Then 1024 ranks take turns to compute the gradient of one
/// row each. @returns the errors of the sums over the first W of them, for each of kCounts
inline std::vector<SumErrors> sum_errors() {
  std::vector<SumErrors> errors;
  train::TrainerOptions o = recipe();
  const data::Dataset text = data::load_dataset({}, o.block_size);
  comm::launch_threads(1, 1, [&](Context& context, std::unique_ptr<comm::Communicator>) {
    const auto gradient_of = [&text](Trainee& rank, const Trainee& weights) {
      rank.draw(text);
      for (std::size_t i = 0; i < rank.all.size(); ++i) {
        std::ranges::copy(weights.masters[i], rank.weight(i).begin());
        std::ranges::fill(rank.gradient(i), 0.0f);
      }
      rank.forward_backward();
    };
    Trainee trained(context, o, text);
    for (int step = 0; step < 50; ++step) gradient_of(trained, trained), trained.update();
    o.batch_size = 1;
    Trainee rank(context, o, text);
    std::vector<Sums> sums;
    for (int r = 0; r < std::ranges::max(kCounts); ++r) {
      gradient_of(rank, trained);
      std::size_t e = 0;
      for (std::size_t i = 0; i < rank.all.size(); ++i) {
        for (const float g : rank.gradient(i)) {
          if (r == 0) sums.emplace_back();
          sums[e++].add(g, static_cast<unsigned>(r));
        }
      }
      if (std::ranges::count(kCounts, r + 1) > 0) errors.push_back(errors_of(sums, r + 1));
    }
  });
  return errors;
}

/// A row of the table: the errors for some numbers of ranks.
inline std::string percents(std::span<const SumErrors> errors, double SumErrors::*which) {
  std::string text;
  for (const SumErrors& of : errors) {
    if (std::ranges::count(kPrinted, of.W) > 0) text += fmt::format("{:>7.2f} %", of.*which);
  }
  return text;
}

/// Draws the errors over W below the picture of the weight. Both axes are logarithmic.
inline void draw(Svg& svg, std::span<const SumErrors> errors) {
  constexpr int kLeft = 60, kTop = 350, kBelow = 610, kDouble = 34;  // pixels
  const auto across = [](double W) { return kLeft + std::lround(kDouble * std::log2(W / 2)); };
  const auto up = [](double percent) {
    return kBelow - std::lround(26 * std::log2(percent / 0.02));
  };
  svg.text(8, kTop, "The error of a sum of W ranks' gradients that are sent in bfloat16.");
  for (const char* percent : {"0.03", "0.1", "0.3", "1", "3", "10"}) {
    const int y = static_cast<int>(up(std::stod(percent)));
    svg.line(kLeft, y, static_cast<int>(across(1024)), y, colour::grey);
    svg.text(kLeft - 6, y + 5, std::string(percent) + " %", Svg::At::end);
  }
  for (const int W : {2, 8, 32, 96, 384, 1024}) {
    const int x = static_cast<int>(across(W));
    svg.line(x, kBelow, x, kBelow + 5);
    svg.text(x, kBelow + 20, std::to_string(W), Svg::At::middle);
  }
  svg.line(kLeft, kBelow, static_cast<int>(across(1024)), kBelow);
  svg.text(static_cast<int>(across(1024)), kBelow + 38, "W ranks", Svg::At::end);
  const auto curve = [&](double SumErrors::*which, const char* words, std::string_view stroke) {
    const auto x = [&](std::size_t i) { return static_cast<int>(across(errors[i].W)); };
    const auto y = [&](std::size_t i) { return static_cast<int>(up(errors[i].*which)); };
    const std::size_t last = errors.size() - 1;
    for (std::size_t i = 0; i < last; ++i) svg.line(x(i), y(i), x(i + 1), y(i + 1), stroke);
    svg.text(x(last) + 6, y(last) + 5, words);
  };
  curve(&SumErrors::ring, "ring", colour::ink);
  curve(&SumErrors::tree, "tree", colour::ink);
  curve(&SumErrors::owner, "float32 sum", colour::reduce_scatter);
}

}  // namespace lesson
