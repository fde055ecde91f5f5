#include "ops/gelu.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

constexpr float kSqrtHalf = 0.707106781186547524f;          // 1 / sqrt(2)
constexpr float kInverseSqrtTwoPi = 0.398942280401432678f;  // 1 / sqrt(2 pi)

struct Gelu {
  const float* x;
  __device__ float operator()(std::int64_t i) const {
    return 0.5f * x[i] * (1 + erff(x[i] * kSqrtHalf));
  }
};

struct GeluSlope {
  const float *dy, *x;
  __device__ float operator()(std::int64_t i) const {
    const float at = x[i];
    const float below = 0.5f * (1 + erff(at * kSqrtHalf));
    return dy[i] * (below + at * kInverseSqrtTwoPi * expf(-0.5f * at * at));
  }
};

}  // namespace

void gelu(Stream& stream, const GeluForward& a) {
  elementwise(stream, a.x.numel(), a.y.f32(), Gelu{a.x.f32()});
}

void gelu(Stream& stream, const GeluBackward& a) {
  elementwise(stream, a.x.numel(), a.dx.f32(), GeluSlope{a.dy.f32(), a.x.f32()});
}

}  // namespace nanofsdp::ops::cuda
