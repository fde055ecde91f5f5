#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "frame/lesson.h"
#include "ops/layer_norm.h"

// Lesson 02: layer norm forward and backward, whether the backward is right, and what it must keep.

namespace {

using namespace nanofsdp;
using In = std::span<const double>;

//! [forward]
struct Kept {
  double mean, rstd;
};

Kept forward(In x, In weight, std::span<double> y) {
  const double C = static_cast<double>(x.size());
  double mean = 0, var = 0;
  for (const double v : x) mean += v / C;
  for (const double v : x) var += (v - mean) * (v - mean) / C;
  const double rstd = 1 / std::sqrt(var + ops::kLayerNormEps);
  for (std::size_t c = 0; c < x.size(); ++c) y[c] = (x[c] - mean) * rstd * weight[c];
  return {mean, rstd};
}
//! [forward]

//! [backward]
void backward(In dy, In x, In weight, Kept kept, std::span<double> dx) {
  const double C = static_cast<double>(x.size());
  const auto g = [&](std::size_t c) { return dy[c] * weight[c]; };
  const auto n = [&](std::size_t c) { return (x[c] - kept.mean) * kept.rstd; };
  double mean_g = 0, mean_gn = 0;
  for (std::size_t c = 0; c < x.size(); ++c) {
    mean_g += g(c) / C;
    mean_gn += g(c) * n(c) / C;
  }
  for (std::size_t c = 0; c < x.size(); ++c) dx[c] = kept.rstd * (g(c) - mean_g - n(c) * mean_gn);
}
//! [backward]

//! [slope]
double slope(In dy, std::vector<double> x, In weight, std::size_t c) {
  const auto loss_at = [&](double value) {  // of a loss whose gradient at y is dy
    std::vector<double> y(x.size());
    x[c] = value;
    forward(x, weight, y);
    return std::inner_product(dy.begin(), dy.end(), y.begin(), 0.0);
  };
  const double here = x[c], h = 1e-5;
  return (loss_at(here + h) - loss_at(here - h)) / (2 * h);
}
//! [slope]

// Random rows; in doubles too, row by row, which the library takes in floats.
struct Rows {
  Rows(std::int64_t R, std::int64_t C) : R(R), C(C), x(R * C), dy(R * C), weight(C) {
    Generator generator(2);
    for (auto* values : {&x, &dy, &weight}) generator.normal(*values, 1, 2);
  }
  std::vector<double> row(const std::vector<float>& of, std::int64_t r) const {
    return {of.begin() + r * C, of.begin() + (r + 1) * C};
  }
  std::int64_t R, C;
  std::vector<float> x, dy, weight;
};

// A row's y and its gradient: by hand, as if mean and rstd did not depend on x, and measured.
struct Results {
  Results(const Rows& rows, std::int64_t r) : y(rows.C), dx(rows.C) {
    const auto x = rows.row(rows.x, r), dy = rows.row(rows.dy, r), w = rows.row(rows.weight, 0);
    const Kept kept = forward(x, w, y);
    backward(dy, x, w, kept, dx);
    for (std::size_t c = 0; c < x.size(); ++c) careless.push_back(kept.rstd * dy[c] * w[c]);
    for (std::size_t c = 0; c < x.size(); ++c) measured.push_back(slope(dy, x, w, c));
  }
  std::vector<double> y, dx, careless, measured;
};

template <class T>
std::int64_t agreeing(In a, const T* b) {
  std::int64_t n = 0;
  for (std::size_t c = 0; c < a.size(); ++c) n += std::abs(a[c] - b[c]) < 1e-5;
  return n;
}

// The library on the same rows: its y and dx take the place of x and dy. Returns the bytes kept.
std::size_t run_library(Rows& rows) {
  Context context;
  std::vector<float> kept(2 * rows.R), dweight(rows.C), y(rows.x.size());
  const Tensor x(rows.x.data(), {rows.R, rows.C}), dy(rows.dy.data(), x.shape());
  const Tensor mean(kept.data(), {rows.R}), rstd(kept.data() + rows.R, {rows.R});
  const Tensor w(rows.weight.data(), {rows.C}), dw(dweight.data(), {rows.C}),
      out(y.data(), x.shape());
  ops::layer_norm(*context.compute, ops::LayerNormForward{x, w, {}, out, mean, rstd});
  ops::layer_norm(*context.compute, ops::LayerNormBackward{dy, x, w, mean, rstd, dy, dw, {}});
  rows.x = y;
  return mean.bytes() + rstd.bytes();
}

lesson::Svg drawing(const Results& row, std::int64_t kept, std::int64_t n) {
  using namespace lesson::colour;
  lesson::Svg svg(700, 310);
  svg.text(20, 20, "dx of one row: by hand (blue), measured (orange), careless (grey)");
  const std::string_view fills[] = {blue, orange, grey};
  for (int i = 0; i < 24; ++i) {
    const double dx = std::array{row.dx, row.measured, row.careless}[i % 3][i / 3];
    const int x = 48 + 82 * (i / 3) + 18 * (i % 3), height = static_cast<int>(std::abs(dx) * 14);
    svg.rect(x, dx > 0 ? 110 - height : 110, 18, height, fills[i % 3]);
  }
  svg.line(20, 110, 680, 110);
  svg.text(20, 215, fmt::format("kept for 768 rows, to scale: mean and rstd, {} bytes", kept));
  svg.rect(20, 223, static_cast<int>(640 * kept / n), 18, green);
  svg.text(20, 270, fmt::format("or the normalised rows, {} bytes", n));
  svg.rect(20, 278, 640, 18, red);
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const Rows toy(6, 8);
  std::int64_t right = 0, careless = 0, zero = 0;
  for (std::int64_t r = 0; r < toy.R; ++r) {
    const Results row(toy, r);
    right += agreeing(row.measured, row.dx.data());
    careless += agreeing(row.measured, row.careless.data());
    zero += std::abs(std::accumulate(row.dx.begin(), row.dx.end(), 0.0)) < 1e-12;
  }
  lesson.print("6 rows of 8, the slope measured at each of 48 elements");
  lesson.print(fmt::format("dx by hand: {} agree", right));
  lesson.print(fmt::format("mean and rstd taken for constants: {} agree", careless));
  lesson.print(fmt::format("dx of a row adds up to 0: {} rows of 6", zero));
  lesson.claim(right == 48 && zero == 6, "dx is the slope");

  const Rows mine(768, 128);
  Rows theirs = mine;
  const auto kept = static_cast<std::int64_t>(run_library(theirs));
  const auto n = static_cast<std::int64_t>(mine.x.size() * sizeof(float));
  std::int64_t equal = 0;
  for (std::int64_t r = 0; r < mine.R; ++r) {
    const Results row(mine, r);
    equal += agreeing(row.y, &theirs.x[128 * r]) + agreeing(row.dx, &theirs.dy[128 * r]);
  }
  lesson.claim(equal == 2 * 768 * 128, "y and dx are the library's");
  lesson.print(fmt::format("kept for 768 rows of 128: mean and rstd {} bytes, or n {}", kept, n));
  lesson.print(fmt::format("in nine layer norms: {} bytes, or {}", 9 * kept, 9 * n));
  lesson.answer(kept);
  lesson.answer(n);
  lesson.answer(zero);
  lesson.picture(drawing(Results(toy, 0), kept, n));
  return lesson.end("dx by hand is the slope, and y and dx are the library's within 1e-5");
}
