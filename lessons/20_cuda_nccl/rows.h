#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/context.h"
#include "frame/svg.h"
#include "ops/layer_norm.h"

/// @file
/// @brief The library's layer norm to compare with, the error of a sum, and the picture of a warp,
/// for lesson 20.

namespace lesson {

using namespace nanofsdp;

/// The largest difference between dx of the library and of `by_hand(dy, x, weight, mean, rstd, dx,
/// C)`, on the CPU.
template <class Row>
float furthest(int R, int C, const Row& by_hand) {
  using Floats = std::vector<float>;
  Floats x(R * C), dy(R * C), weight(C), y(R * C), mean(R), rstd(R), dx(R * C), row(C);
  for (int i = 0; i < R * C; ++i) {
    x[i] = static_cast<float>(std::sin(i)), dy[i] = static_cast<float>(std::cos(i));
  }
  for (int c = 0; c < C; ++c) weight[c] = 1 + x[c] / 8;
  const auto t = [](Floats& v, const Shape& shape) { return Tensor(v.data(), shape); };
  const Tensor X = t(x, {R, C}), W = t(weight, {C}), M = t(mean, {R}), S = t(rstd, {R});
  const Context context;
  Stream& stream = *context.compute;
  ops::layer_norm(stream, {.x = X, .weight = W, .y = t(y, {R, C}), .mean = M, .rstd = S});
  ops::layer_norm(
      stream,
      {.dy = t(dy, {R, C}), .x = X, .weight = W, .mean = M, .rstd = S, .dx = t(dx, {R, C})});
  float furthest = 0;
  for (int r = 0; r < R; ++r) {
    const int at = r * C;
    by_hand(&dy[at], &x[at], weight.data(), mean[r], rstd[r], row.data(), C);
    for (int c = 0; c < C; ++c) furthest = std::max(furthest, std::abs(row[c] - dx[at + c]));
  }
  return furthest;
}

/// How far a sum is from the true one, in units of its last place.
inline std::int64_t units(float sum, double truth) {
  return std::llround(std::abs(sum - truth) / (std::nextafter(sum, INFINITY) - sum));
}

/// The number of lane i after a round, with lines from the two lanes whose numbers it has added.
inline void draw_lane(Svg& svg, int round, int i, int other, float value) {
  const int x = 105 + 45 * i, y = 40 + 70 * round;
  if (i == 0) svg.text(8, y + 19, round == 0 ? "at first" : fmt::format("round {}", round));
  if (round > 0) svg.line(x, y, x, y - 42);
  if (round > 0) svg.line(x, y, 105 + 45 * other, y - 42);
  svg.box(x - 19, y, 38, 28, colour::activations, fmt::format("{}", value));
}

}  // namespace lesson
