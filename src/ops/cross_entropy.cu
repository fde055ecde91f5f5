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

// What a row leaves: its loss and the logarithm of its sum of exponentials. `sum` is relative to
// `max`.
__device__ void write_loss(float max, float sum, std::int32_t target, float of_target, float* loss,
                           float* lse) {
  const double row_lse = max + log(static_cast<double>(sum));
  *lse = static_cast<float>(row_lse);
  *loss = target < 0 ? 0 : static_cast<float>(row_lse - of_target);
}

// One row a block, read once. Each thread keeps the largest logit that it has seen and the sum of
// exponentials relative to it; a larger one scales the sum down. NaN in the row makes the sum NaN.
template <class T>
__global__ void forward(const T* logits, const std::int32_t* target, float* loss, float* lse,
                        int V) {
  const std::int64_t n = blockIdx.x;
  const T* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  float max = -FLT_MAX;  // not minus infinity, or a logit that is would be at distance NaN
  float sum = 0;
  for (int first = threadIdx.x; first < V; first += kReadAhead * blockDim.x) {
    float logit[kReadAhead];
    for (int k = 0; k < kReadAhead; ++k) {
      const int v = first + k * blockDim.x;
      logit[k] = v < V ? widen(x[v]) : -INFINITY;  // whose exponential is 0
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
  if (threadIdx.x == 0) write_loss(row_max, sum, t, t < 0 ? 0 : widen(x[t]), &loss[n], &lse[n]);
}

// One row a block, in place.
template <class T>
__global__ void backward(T* logits, const std::int32_t* target, const float* lse, float scale,
                         int V) {
  const std::int64_t n = blockIdx.x;
  T* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  const float row_lse = lse[n];
  block_write(V, x, [=](int v) {
    const float gradient = scale * expf(widen(x[v]) - row_lse) - (v == t ? scale : 0);
    return narrow_to<T>(t < 0 ? 0 : gradient);
  });
}

constexpr int kHeld = 7;      // packs that a thread of classify() keeps in registers
constexpr int kBlock = 1024;  // its threads

// Eight logits of bfloat16, two to a word: what memory gives and takes at once.
struct alignas(16) Eight {
  unsigned words[4];
  static constexpr int kCount = 8;

  __device__ float operator[](int i) const {
    const unsigned word = words[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
};

// Lets the compiler forget what it has made of the words: all logits of a row as float32 at once
// would not fit the registers.
__device__ void keep_packed(Eight (&held)[kHeld]) {
#pragma unroll
  for (Eight& x : held) {
#pragma unroll
    for (unsigned& word : x.words) asm volatile("" : "+r"(word));
  }
}

__device__ unsigned pair_of(float low, float high) {
  return narrow_to<bfloat16>(low).bits | static_cast<unsigned>(narrow_to<bfloat16>(high).bits)
                                             << 16;
}

// Both at once: the row is read once and stays in registers until its gradient takes its place.
__global__ void __launch_bounds__(kBlock) classify(Eight* logits, const std::int32_t* target,
                                                   float* loss, float* lse, float scale, int V) {
  constexpr unsigned kNothing = 0xff80ff80u;  // minus infinity, twice, whose exponential is 0
  constexpr float kLog2E = 1.4426950408889634f;
  const std::int64_t n = blockIdx.x;
  const int packs = V / Eight::kCount;
  Eight* const row = logits + n * packs;
  const std::int32_t t = checked(target[n], V);
  const float of_target = t < 0 ? 0 : widen(reinterpret_cast<const bfloat16*>(row)[t]);
  Eight held[kHeld];
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = k * kBlock + threadIdx.x;
    held[k] = i < packs ? row[i] : Eight{kNothing, kNothing, kNothing, kNothing};
  }
  float max = -FLT_MAX, sum = 0;
#pragma unroll
  for (const Eight& x : held) {
#pragma unroll
    for (int i = 0; i < Eight::kCount; ++i) max = x[i] > max ? x[i] : max;
  }
  keep_packed(held);
  max = over_block(max, Max{});
#pragma unroll
  for (const Eight& x : held) {
#pragma unroll
    for (int i = 0; i < Eight::kCount; ++i) sum += exp2f(kLog2E * (x[i] - max));
  }
  keep_packed(held);
  sum = over_block(sum, Sum{});
  const float shift = log2f(sum), factor = t < 0 ? 0 : scale;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = k * kBlock + threadIdx.x;
    const auto gradient = [&](int j) {
      const float p = exp2f(kLog2E * (held[k][j] - max) - shift);
      return factor * p - (Eight::kCount * i + j == t ? factor : 0);
    };
    Eight gradients;
#pragma unroll
    for (int w = 0; w < 4; ++w) gradients.words[w] = pair_of(gradient(2 * w), gradient(2 * w + 1));
    if (i < packs) row[i] = gradients;
  }
  // Last, as it takes registers too.
  if (threadIdx.x == 0) write_loss(max, sum, t, of_target, &loss[n], &lse[n]);
}

void add_to_total(Stream& stream, const Tensor& loss, const Tensor& total) {
  if (total.empty()) return;
  launch(stream, 1, kThreads, add_up<float>, loss.f32(), loss.numel(), total.data<double>());
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyForward& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  for_type_of(a.logits, [&]<class T>(T) {
    launch(stream, blocks_for(N, 1), threads_for(V), forward<T>, a.logits.data<T>(),
           a.target.data<std::int32_t>(), a.loss.f32(), a.lse.f32(), V);
  });
  add_to_total(stream, a.loss, a.total);
}

void cross_entropy(Stream& stream, const CrossEntropyBackward& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  for_type_of(a.logits, [&]<class T>(T) {
    launch(stream, blocks_for(N, 1), threads_for(V), backward<T>, a.logits.data<T>(),
           a.target.data<std::int32_t>(), a.lse.f32(), a.scale, V);
  });
}

void cross_entropy(Stream& stream, const CrossEntropy& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  const bool packed = V % Eight::kCount == 0 && V <= kHeld * kBlock * Eight::kCount &&
                      reinterpret_cast<std::uintptr_t>(a.logits.raw()) % sizeof(Eight) == 0;
  if (a.logits.dtype() == DType::float32 || !packed) {
    const CrossEntropyForward& forward = a;
    cuda::cross_entropy(stream, forward);
    return cuda::cross_entropy(stream, CrossEntropyBackward{a.logits, a.target, a.lse, a.scale});
  }
  launch(stream, blocks_for(N, 1), kBlock, classify,
         reinterpret_cast<Eight*>(a.logits.data<bfloat16>()), a.target.data<std::int32_t>(),
         a.loss.f32(), a.lse.f32(), a.scale, V);
  add_to_total(stream, a.loss, a.total);
}

}  // namespace nanofsdp::ops::cuda
