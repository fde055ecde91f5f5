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
  const double n = static_cast<double>(x.size());
  double mean = 0, var = 0;
  for (const double value : x) mean += value / n;
  for (const double value : x) var += (value - mean) * (value - mean) / n;
  const double rstd = 1 / std::sqrt(var + ops::kLayerNormEps);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) * rstd * weight[i];
  return {mean, rstd};
}
//! [forward]

//! [backward]
void backward(In dy, In x, In weight, Kept kept, std::span<double> dx) {
  const double n = static_cast<double>(x.size());
  const auto g = [&](std::size_t i) { return dy[i] * weight[i]; };
  const auto normal = [&](std::size_t i) { return (x[i] - kept.mean) * kept.rstd; };
  double mean_g = 0, mean_gn = 0;  // of g, and of g times normal
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_g += g(i) / n;
    mean_gn += g(i) * normal(i) / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    dx[i] = kept.rstd * (g(i) - mean_g - normal(i) * mean_gn);
  }
}
//! [backward]

//! [slope]
double slope(In dy, std::vector<double> x, In weight, std::size_t i) {
  const auto loss_at = [&](double value) {  // a loss whose slope with respect to y is dy
    std::vector<double> y(x.size());
    x[i] = value;
    forward(x, weight, y);
    return std::inner_product(dy.begin(), dy.end(), y.begin(), 0.0);
  };
  const double here = x[i], tiny = 1e-5;
  return (loss_at(here + tiny) - loss_at(here - tiny)) / (2 * tiny);
}
//! [slope]

// Random inputs: rows of n elements.
struct Operands {
  Operands(lesson::Memory& memory, std::int64_t rows, std::int64_t n)
      : dy(memory.random({rows, n}, 1)),
        x(memory.random({rows, n}, 2)),
        weight(memory.random({n}, 3)) {}
  Tensor dy, x, weight;
};

std::vector<double> doubles(Tensor floats) { return {floats.f32(), floats.f32() + floats.numel()}; }

// For all rows: y and dx by hand; dx as if mean and rstd were constants; and the measured slope.
struct Results {
  explicit Results(const Operands& a) : y(doubles(a.x).size()), dx(y.size()) {
    const std::vector<double> dys = doubles(a.dy), xs = doubles(a.x), weight = doubles(a.weight);
    const std::size_t n = weight.size();
    for (std::size_t at = 0; at < xs.size(); at += n) {
      const In dy = In(dys).subspan(at, n), x = In(xs).subspan(at, n);
      const Kept kept = forward(x, weight, std::span(y).subspan(at, n));
      backward(dy, x, weight, kept, std::span(dx).subspan(at, n));
      zero_sums += std::abs(std::accumulate(&dx[at], &dx[at] + n, 0.0)) < 1e-12;
      for (std::size_t i = 0; i < n; ++i) {
        careless.push_back(kept.rstd * dy[i] * weight[i]);
        measured.push_back(slope(dy, {x.begin(), x.end()}, weight, i));
      }
    }
  }
  std::vector<double> y, dx, careless, measured;
  std::int64_t zero_sums = 0;  // rows whose dx adds up to 0
};

std::size_t agreeing(In a, In b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::abs(a[i] - b[i]) < 1e-5;
  return count;
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
  const std::int64_t rows = 768 * 128 * sizeof(float);
  lesson.print(fmt::format(
      "kept for 768 rows of 128: mean and rstd {} bytes, or the normalised rows {}", kept, rows));
  for (const std::int64_t measured : {kept, rows, toy.zero_sums}) lesson.answer(measured);
  lesson.picture(lesson::drawing({toy.dx, toy.measured, toy.careless}, kept, rows));
  return lesson.end("dx by hand is the slope, and y and dx are the library's within 1e-5");
}
