#include "ops/gelu.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <unsupported/Eigen/SpecialFunctions>

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Eigen computes whole vectors with its own erf and exp, and the rest of an array with libm, which
// is slower and gives other last bits. So elements are copied to arrays of one fixed size on the
// stack, which have no rest. The result of an element does not depend on where it lies.
constexpr std::int64_t kChunk = 512;
using Chunk = Eigen::Array<float, kChunk, 1>;
using Map = Eigen::Map<Eigen::ArrayXf>;
using ConstMap = Eigen::Map<const Eigen::ArrayXf>;

constexpr float kSqrtHalf = 0.707106781186547524f;          // 1 / sqrt(2)
constexpr float kInverseSqrtTwoPi = 0.398942280401432678f;  // 1 / sqrt(2 pi)

// The n elements from `x` on as a whole chunk. If n is smaller than a chunk, `rest` holds them.
Eigen::Map<const Chunk> whole_chunk(const float* x, std::int64_t n, Chunk& rest) {
  if (n == kChunk) return Eigen::Map<const Chunk>(x);
  rest.head(n) = ConstMap(x, n);
  return Eigen::Map<const Chunk>(rest.data());
}

// Writes the first n elements of `expression`, which is a whole chunk.
template <class Expression>
void write_chunk(float* y, std::int64_t n, const Expression& expression) {
  if (n == kChunk) {
    Eigen::Map<Chunk>{y} = expression;
  } else {
    Map(y, n) = Chunk(expression).head(n);
  }
}

}  // namespace

void gelu(Stream& stream, const GeluForward& a) {
  const Require require(stream, a.x);
  require("gelu: x", a.x, a.x.shape());
  require("gelu: y", a.y, a.x.shape());
  enqueue_loop(stream, a, a.x.numel(), grain_of(), [a](std::int64_t begin, std::int64_t end) {
    Chunk rest = Chunk::Zero();
    for (std::int64_t i = begin; i < end; i += kChunk) {
      const std::int64_t n = std::min(kChunk, end - i);
      const auto x = whole_chunk(a.x.f32() + i, n, rest);
      write_chunk(a.y.f32() + i, n, 0.5f * x * (1 + (x * kSqrtHalf).erf()));
    }
  });
}

void gelu(Stream& stream, const GeluBackward& a) {
  const Require require(stream, a.x);
  require("gelu: x", a.x, a.x.shape());
  require("gelu: dy", a.dy, a.x.shape());
  require("gelu: dx", a.dx, a.x.shape());
  enqueue_loop(stream, a, a.x.numel(), grain_of(), [a](std::int64_t begin, std::int64_t end) {
    Chunk rest = Chunk::Zero(), rest_dy = Chunk::Zero();
    for (std::int64_t i = begin; i < end; i += kChunk) {
      const std::int64_t n = std::min(kChunk, end - i);
      const auto x = whole_chunk(a.x.f32() + i, n, rest);
      const auto slope =
          0.5f * (1 + (x * kSqrtHalf).erf()) + x * kInverseSqrtTwoPi * (-0.5f * x.square()).exp();
      write_chunk(a.dx.f32() + i, n, whole_chunk(a.dy.f32() + i, n, rest_dy) * slope);
    }
  });
}

}  // namespace nanofsdp::ops
