#include "ops/gelu.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

constexpr float kSqrtHalf = 0.707106781186547524f;          // 1 / sqrt(2)
constexpr float kInverseSqrtTwoPi = 0.398942280401432678f;  // 1 / sqrt(2 pi)

// Phi and exp(-x^2 / 2) at x.
struct Normal {
  float below, bell;
};

__device__ Normal normal(float x, float) {
  return {0.5f * (1 + erff(x * kSqrtHalf)), expf(-0.5f * x * x)};
}

// For bfloat16, the tail beyond |x| is a polynomial in 1 / (1 + p |x|), with an error of at most
// 1e-7 (Abramowitz and Stegun 1964, 7.1.26). It needs one exponential, which is the bell as well,
// and one reciprocal. erff and expf would take longer than the memory accesses.
__device__ Normal normal(float x, bfloat16) {
  const float t = __fdividef(1.0f, 1 + 0.3275911f * kSqrtHalf * fabsf(x));
  const float bell = __expf(-0.5f * x * x);
  const float far = (1.061405429f * t - 1.453152027f) * t + 1.421413741f;
  const float tail = 0.5f * ((far * t - 0.284496736f) * t + 0.254829592f) * t * bell;
  return {x < 0 ? tail : 1 - tail, bell};
}

template <class T>
struct Gelu {
  __device__ float operator()(float x, float) const { return x * normal(x, T{}).below; }
};

template <class T>
struct GeluSlope {
  __device__ float operator()(float dy, float x) const {
    const Normal at = normal(x, T{});
    return dy * fmaf(x * kInverseSqrtTwoPi, at.bell, at.below);
  }
};

}  // namespace

void run_on_gpu(Stream& stream, const GeluForward& a) {
  for_type_of(a.x, [&]<class T>(T) { map(stream, a.y, Gelu<T>{}, a.x, a.x); });
}

void run_on_gpu(Stream& stream, const GeluBackward& a) {
  for_type_of(a.x, [&]<class T>(T) { map(stream, a.dx, GeluSlope<T>{}, a.dy, a.x); });
}

}  // namespace nanofsdp::ops
