#include "ops/cross_entropy.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Short: while a processor computes with so many, so many others can be on their way from memory.
constexpr std::int64_t kChunk = 256;
using Chunk = Eigen::Array<float, Eigen::Dynamic, 1, 0, kChunk, 1>;
using Map = Eigen::Map<Eigen::ArrayXf>;
using ConstMap = Eigen::Map<const Eigen::ArrayXf>;

// exp(x[i] - shift) for i < n <= kChunk. The stack is aligned where the row need not be: which
// elements fill vectors, and which are left over to libm, whose last bit differs, depends on their
// place in the row and not on the row's place in memory.
Chunk exponentials(const float* x, std::int64_t n, float shift) {
  return (ConstMap(x, n) - shift).exp();
}

// Looked at when the work runs, before its loop: a bad target would read outside its row.
void require_targets(const Tensor& target, std::int64_t V) {
  for (std::int64_t n = 0; n < target.numel(); ++n) {
    const std::int32_t t = target.data<std::int32_t>()[n];
    NANOFSDP_CHECK(t >= -1 && t < V, .what = fmt::format("cross_entropy: target of row {}", n),
                   .expected = fmt::format("-1 or a class in [0, {})", V),
                   .got = fmt::format("{}", t));
  }
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyForward& a) {
  const Require require(stream);
  require_rank("cross_entropy: logits", a.logits, 2);
  const std::int64_t N = a.logits.dim(0);
  const std::int64_t V = a.logits.dim(1);
  require("cross_entropy: logits", a.logits, {N, V});
  require("cross_entropy: loss", a.loss, {N});
  require("cross_entropy: lse", a.lse, {N});
  if (!a.total.empty()) require("cross_entropy: total", a.total, {1}, DType::float64);
  require("cross_entropy: target", a.target, {N}, DType::int32);
  if (a.logits.empty()) return;
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::cross_entropy(stream, a);
  }
  stream.enqueue([&stream, a, N, V] {
    require_targets(a.target, V);
    const std::int32_t* target = a.target.data<std::int32_t>();
    stream.parallel_for(N, grain_of(V), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* x = a.logits.f32() + n * V;
        const float max = ConstMap(x, V).maxCoeff();
        double sum = 0;
        for (std::int64_t v = 0; v < V; v += kChunk) {
          prefetch(x + V + v, kChunk);  // of the next row
          sum += exponentials(x + v, std::min(kChunk, V - v), max).sum();
        }
        const double lse = max + std::log(sum);
        a.lse.f32()[n] = static_cast<float>(lse);
        a.loss.f32()[n] = target[n] < 0 ? 0 : static_cast<float>(lse - x[target[n]]);
      }
    });
    if (a.total.empty()) return;
    for (const float loss : a.loss.span<float>()) *a.total.data<double>() += loss;
  });
}

void cross_entropy(Stream& stream, const CrossEntropyBackward& a) {
  const Require require(stream);
  require_rank("cross_entropy: logits", a.logits, 2);
  const std::int64_t N = a.logits.dim(0);
  const std::int64_t V = a.logits.dim(1);
  require("cross_entropy: logits", a.logits, {N, V});
  require("cross_entropy: lse", a.lse, {N});
  require("cross_entropy: target", a.target, {N}, DType::int32);
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::cross_entropy(stream, a);
  }
  stream.enqueue([&stream, a, N, V] {
    require_targets(a.target, V);
    const std::int32_t* target = a.target.data<std::int32_t>();
    stream.parallel_for(N, grain_of(V), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        float* x = a.logits.f32() + n * V;
        if (target[n] < 0) {
          std::fill_n(x, V, 0.0f);
          continue;
        }
        for (std::int64_t v = 0; v < V; v += kChunk) {
          const std::int64_t size = std::min(kChunk, V - v);
          Map(x + v, size) = a.scale * exponentials(x + v, size, a.lse.f32()[n]).head(size);
        }
        x[target[n]] -= a.scale;
      }
    });
  });
}

}  // namespace nanofsdp::ops
