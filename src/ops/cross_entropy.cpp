#include "ops/cross_entropy.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/exp.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

constexpr std::int64_t kLanes = 16;    // number of partial sums: one vector
constexpr std::int64_t kChunk = 1024;  // the partial sums are added up after this many elements
using Lanes = Eigen::Array<float, kLanes, 1>;

// The sum of exp(x[i] - shift) for i < n.
double sum_of_exponentials(const float* x, std::int64_t n, float shift) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t end = std::min(n, begin + kChunk);
    Lanes lanes = Lanes::Zero();
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      prefetch(x + i + kAhead, kLanes);
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += exponential(x[i + l] - shift);
    }
    for (; i < end; ++i) lanes[0] += exponential(x[i] - shift);
    sum += lanes.sum();
  }
  return sum;
}

// Replaces x[i] by scale * exp(x[i] - lse).
void to_softmax(float* x, std::int64_t n, float lse, float scale) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch(x + i + kAhead, kLanes);
    for (std::int64_t l = 0; l < kLanes; ++l) x[i + l] = scale * exponential(x[i + l] - lse);
  }
  for (; i < n; ++i) x[i] = scale * exponential(x[i] - lse);
}

// The logarithm of the sum of exp(x[i]) for i < n. Any shift is right if no exponential overflows.
// The first element is nearly always such a shift, and then the row is read once. If it is not, the
// largest element is the shift.
double log_sum_of_exponentials(const float* x, std::int64_t n) {
  float shift = x[0];
  double sum = sum_of_exponentials(x, n, shift);
  if (!(sum < 1e37)) {
    shift = Eigen::Map<const Eigen::ArrayXf>(x, n).maxCoeff();
    sum = sum_of_exponentials(x, n, shift);
  }
  return shift + std::log(sum);
}

// Calls visit(n, logits of row n, its target) for every row. The threads share the rows.
template <class Visit>
void for_each_row(Stream& stream, const Tensor& logits, const Tensor& target, const Visit& visit) {
  const std::int64_t N = logits.dim(0), V = logits.dim(1);
  require_indices("cross_entropy: target of row", target, -1, "-1 or a class", V);
  stream.parallel_for(N, grain_of(V), [&](std::int64_t n) {
    visit(n, logits.f32() + n * V, target.data<std::int32_t>()[n]);
  });
}

void forward(Stream& stream, const CrossEntropyForward& a) {
  for_each_row(stream, a.logits, a.target, [&](std::int64_t n, float* x, std::int32_t target) {
    const double lse = log_sum_of_exponentials(x, a.logits.dim(1));
    a.lse.f32()[n] = static_cast<float>(lse);
    a.loss.f32()[n] = target < 0 ? 0 : static_cast<float>(lse - x[target]);
  });
  if (a.total.empty()) return;
  for (const float loss : a.loss.span<float>()) *a.total.data<double>() += loss;
}

void backward(Stream& stream, const CrossEntropyBackward& a) {
  for_each_row(stream, a.logits, a.target, [&](std::int64_t n, float* x, std::int32_t target) {
    const std::int64_t V = a.logits.dim(1);
    if (target < 0) return static_cast<void>(std::fill_n(x, V, 0.0f));
    to_softmax(x, V, a.lse.f32()[n], a.scale);
    x[target] -= a.scale;
  });
}

// Checks the operands and enqueues the operator. `work` is null for operands that a CPU never gets.
template <class Operands>
void enqueue_rows(Stream& stream, const Operands& a, void (*work)(Stream&, const Operands&)) {
  const Require require(stream, a.logits);
  require.rank("cross_entropy: logits", a.logits, 2);
  const std::int64_t N = a.logits.dim(0);
  NANOFSDP_CHECK_SHAPE(N == 0 || a.logits.dim(1) > 0, .what = "cross_entropy: logits",
                       .expected = "a class or more", .got = a.logits.shape().str());
  if constexpr (requires { a.loss; }) {
    require("cross_entropy: loss", a.loss, {N}, DType::float32);
    if (!a.total.empty()) require("cross_entropy: total", a.total, {1}, DType::float64);
  }
  require("cross_entropy: lse", a.lse, {N}, DType::float32);
  require("cross_entropy: target", a.target, {N}, DType::int32);
  if (a.logits.empty()) return;
  enqueue(stream, a, [&stream, a, work] { work(stream, a); });
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyForward& a) {
  enqueue_rows(stream, a, forward);
}
void cross_entropy(Stream& stream, const CrossEntropyBackward& a) {
  enqueue_rows(stream, a, backward);
}
void cross_entropy(Stream& stream, const CrossEntropy& a) {
  if (a.logits.dtype() == DType::bfloat16) return enqueue_rows<CrossEntropy>(stream, a, nullptr);
  cross_entropy(stream, CrossEntropyForward{a});
  cross_entropy(stream, CrossEntropyBackward{a.logits, a.target, a.lse, a.scale});
}

}  // namespace nanofsdp::ops
