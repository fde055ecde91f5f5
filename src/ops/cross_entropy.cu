#include "ops/cross_entropy.h"

#include <cfloat>
#include <cmath>

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

/// The target, which is a class or -1. No host is there to be told otherwise, and reading on would
/// leave the row: the kernel stops, and with it the program's use of the GPU.
__device__ std::int32_t checked(std::int32_t target, int V) {
  if (target < -1 || target >= V) __trap();
  return target;
}

// One row a block, read once. Each thread keeps the largest logit that it has seen and the sum of
// exponentials relative to it; a larger one scales the sum down. NaN in the row makes the sum NaN.
__global__ void forward(const float* logits, const std::int32_t* target, float* loss, float* lse,
                        int V) {
  const std::int64_t n = blockIdx.x;
  const float* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  float max = -FLT_MAX;  // not minus infinity, or a logit that is would be at distance NaN
  float sum = 0;
  for (int first = threadIdx.x; first < V; first += kReadAhead * blockDim.x) {
    float logit[kReadAhead];
    for (int k = 0; k < kReadAhead; ++k) {
      const int v = first + k * blockDim.x;
      logit[k] = v < V ? x[v] : -INFINITY;  // whose exponential is 0
    }
    for (const float next : logit) {
      const float above = next - max;
      const float smaller = expf(-fabsf(above));  // of the two, relative to the larger
      sum = above > 0 ? sum * smaller + 1 : sum + smaller;
      max = above > 0 ? next : max;
    }
  }
  const float row_max = over_block(max, Max{});
  sum = over_block(sum * expf(max - row_max), Sum{});
  if (threadIdx.x > 0) return;
  const double row_lse = row_max + log(static_cast<double>(sum));
  lse[n] = static_cast<float>(row_lse);
  loss[n] = t < 0 ? 0 : static_cast<float>(row_lse - x[t]);
}

// One row a block, in place.
__global__ void backward(float* logits, const std::int32_t* target, const float* lse, float scale,
                         int V) {
  const std::int64_t n = blockIdx.x;
  float* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  const float row_lse = lse[n];
  block_write(V, x, [=](int v) {
    const float gradient = scale * expf(x[v] - row_lse) - (v == t ? scale : 0);
    return t < 0 ? 0 : gradient;
  });
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyForward& a) {
  const std::int64_t N = a.logits.dim(0);
  const std::int64_t V = a.logits.dim(1);
  launch(stream, blocks_for(N, 1), threads_for(V), forward, a.logits.f32(),
         a.target.data<std::int32_t>(), a.loss.f32(), a.lse.f32(), V);
  if (a.total.empty()) return;
  launch(stream, 1, kThreads, add_up<float>, a.loss.f32(), N, a.total.data<double>());
}

void cross_entropy(Stream& stream, const CrossEntropyBackward& a) {
  const std::int64_t N = a.logits.dim(0);
  const std::int64_t V = a.logits.dim(1);
  launch(stream, blocks_for(N, 1), threads_for(V), backward, a.logits.f32(),
         a.target.data<std::int32_t>(), a.lse.f32(), a.scale, V);
}

}  // namespace nanofsdp::ops::cuda
