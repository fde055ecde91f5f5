#include "ops/norm.h"

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

constexpr std::int64_t kBlock = 16384;
constexpr std::int64_t kLanes = 32;

// Partial sums side by side, which compilers vectorise (GCC does not vectorise sixteen of them).
// They are added in one fixed order. The square of a float32 is exact in double.
double sum_of_squares(const float* x, std::int64_t n) {
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch(x + i + kAhead, kLanes);
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += static_cast<double>(x[i + j]) * x[i + j];
  }
  for (std::int64_t j = 0; i < n; ++i, ++j) lanes[j] += static_cast<double>(x[i]) * x[i];
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

double sum_of_squares(Stream& stream, const Tensor& part) {
  const std::int64_t n = part.numel(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  stream.parallel_for(blocks, grain_of(kBlock), [&](std::int64_t b) {
    sums[b] = sum_of_squares(part.f32() + b * kBlock, std::min(kBlock, n - b * kBlock));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

void squared_norm(Stream& stream, const SquaredNorm& a) {
  const Require require(stream);
  require("squared_norm: x", a.x, a.x.shape());
  NANOFSDP_CHECK(a.offset >= 0 && a.offset < a.part, .what = "squared_norm: part and offset",
                 .expected = "an offset in [0, part)",
                 .got = fmt::format("{}, {}", a.part, a.offset));
  require("squared_norm: out", a.out, {(a.offset + a.x.numel() - 1) / a.part + 1}, DType::float64);
  enqueue(stream, a, [&stream, a] {
    double* sum = a.out.data<double>();
    for (std::int64_t k = 0; k < a.out.numel(); ++k) sum[k] += sum_of_squares(stream, a.in_part(k));
  });
}

void clip_coefficient(Stream& stream, const ClipCoefficient& a) {
  const Require require(stream);
  require("clip_coefficient: squares", a.squares, a.squares.shape(), DType::float64);
  require("clip_coefficient: norm", a.norm, {1});
  require("clip_coefficient: coefficient", a.coefficient, {1});
  enqueue(stream, a, [a] {
    double sum = 0;
    for (const double square : a.squares.span<double>()) sum += square;
    const double norm = std::sqrt(sum);
    *a.norm.f32() = static_cast<float>(norm);
    // With the operands in this order, min() returns NaN if the norm or its limit is NaN, as
    // PyTorch does.
    *a.coefficient.f32() =
        a.max_norm <= 0 ? 1.0f : static_cast<float>(std::min(a.max_norm / (norm + 1e-6), 1.0));
  });
}

}  // namespace nanofsdp::ops
