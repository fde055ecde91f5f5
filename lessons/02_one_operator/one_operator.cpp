#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "frame/lesson.h"
#include "frame/memory.h"
#include "ops/layer_norm.h"
#include "picture.h"

// Lesson 02: layer norm, forward and backward; a test of the backward; and what forward keeps for
// it.

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
  const auto loss_at = [&](double value) {  // a loss whose slope with respect to y is dy
    std::vector<double> y(x.size());
    x[c] = value;
    forward(x, weight, y);
    return std::inner_product(dy.begin(), dy.end(), y.begin(), 0.0);
  };
  const double here = x[c], h = 1e-5;
  return (loss_at(here + h) - loss_at(here - h)) / (2 * h);
}
//! [slope]

// Random inputs of R rows and C columns.
struct Operands {
  Operands(lesson::Memory& memory, std::int64_t R, std::int64_t C)
      : dy(memory.random({R, C}, 1)), x(memory.random({R, C}, 2)), weight(memory.random({C}, 3)) {}
  Tensor dy, x, weight;
};

std::vector<double> doubles(Tensor floats) { return {floats.f32(), floats.f32() + floats.numel()}; }

// For all rows: y and dx by hand; dx as if mean and rstd were constants; and the measured slope.
struct Results {
  explicit Results(const Operands& a) : y(doubles(a.x).size()), dx(y.size()) {
    const std::vector<double> dys = doubles(a.dy), xs = doubles(a.x), weight = doubles(a.weight);
    const std::size_t C = weight.size();
    for (std::size_t at = 0; at < xs.size(); at += C) {
      const In dy = In(dys).subspan(at, C), x = In(xs).subspan(at, C);
      const Kept kept = forward(x, weight, std::span(y).subspan(at, C));
      backward(dy, x, weight, kept, std::span(dx).subspan(at, C));
      zero_sums += std::abs(std::accumulate(&dx[at], &dx[at] + C, 0.0)) < 1e-12;
      for (std::size_t c = 0; c < C; ++c) {
        careless.push_back(kept.rstd * dy[c] * weight[c]);
        measured.push_back(slope(dy, {x.begin(), x.end()}, weight, c));
      }
    }
  }
  std::vector<double> y, dx, careless, measured;
  std::int64_t zero_sums = 0;  // rows whose dx adds up to 0
};

std::size_t agreeing(In a, In b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += std::abs(a[i] - b[i]) < 1e-5;
  return n;
}

// Claims that the library computes the same. Returns how many bytes it keeps for backward.
std::int64_t compare(lesson::Lesson& lesson, lesson::Memory& memory, const Operands& a) {
  const Tensor y = memory.zeros(a.x.shape()), dx = memory.zeros(a.x.shape());
  const Tensor mean = memory.zeros({a.x.dim(0)}), rstd = memory.zeros({a.x.dim(0)});
  const Tensor dweight = memory.zeros(a.weight.shape());
  ops::layer_norm(memory.stream(), ops::LayerNormForward{a.x, a.weight, {}, y, mean, rstd});
  ops::layer_norm(memory.stream(),
                  ops::LayerNormBackward{a.dy, a.x, a.weight, mean, rstd, dx, dweight, {}});
  const Results mine(a);
  const std::size_t equal = agreeing(mine.y, doubles(y)) + agreeing(mine.dx, doubles(dx));
  lesson.claim(equal == 2 * mine.y.size(), "y and dx are the library's");
  return static_cast<std::int64_t>(mean.bytes() + rstd.bytes());
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson::Memory memory;
  const Results toy(Operands(memory, 6, 8));
  const std::size_t right = agreeing(toy.measured, toy.dx);
  lesson.claim(right == 48 && toy.zero_sums == 6, "dx is the slope");
  const std::size_t careless = agreeing(toy.measured, toy.careless);
  lesson.print(fmt::format("6 rows of 8: dx by hand is the slope at {} of 48 elements", right));
  lesson.print(fmt::format("mean and rstd taken for constants: at {} of 48", careless));
  lesson.print(fmt::format("dx of a row adds up to 0: {} rows of 6", toy.zero_sums));

  const std::int64_t kept = compare(lesson, memory, Operands(memory, 768, 128));
  const std::int64_t n = 768 * 128 * sizeof(float);
  lesson.print(fmt::format("kept for 768 rows of 128: mean and rstd {} bytes, or n {}", kept, n));
  for (const std::int64_t measured : {kept, n, toy.zero_sums}) lesson.answer(measured);
  lesson.picture(lesson::drawing({toy.dx, toy.measured, toy.careless}, kept, n));
  return lesson.end("dx by hand is the slope, and y and dx are the library's within 1e-5");
}
