#include "ops/cross_entropy.h"

#include <cfloat>
#include <cmath>

#include "ops/flash/warp_matrix.cuh"
#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

/// Returns the target, which is a class or -1. Any other target would make the kernel read outside
/// the row, and a kernel cannot report an error to the host. So it stops by a trap, which ends the
/// program's use of the GPU.
__device__ std::int32_t checked(std::int32_t target, int V) {
  if (target < -1 || target >= V) __trap();
  return target;
}

// Writes a row's loss and the logarithm of its sum of exponentials.
// @param sum the sum of exp(x - max + more)
__device__ void write_loss(float max, float sum, float more, std::int32_t target, float of_target,
                           float* loss, float* lse) {
  const double row_lse = max + (log(static_cast<double>(sum)) - more);
  *lse = static_cast<float>(row_lse);
  *loss = target < 0 ? 0 : static_cast<float>(row_lse - of_target);
}

// One block reads one row, once. Each thread keeps the largest logit so far, and the sum of
// exponentials relative to it. A larger logit scales that sum down. If the row has a NaN, the sum
// is NaN.
template <class T>
__global__ void forward(const T* logits, const std::int32_t* target, float* loss, float* lse,
                        int V) {
  const std::int64_t n = blockIdx.x;
  const T* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  float max = -FLT_MAX;  // not minus infinity: a logit of minus infinity would then give NaN
  float sum = 0;
  for (int first = threadIdx.x; first < V; first += kReadAhead * blockDim.x) {
    float logit[kReadAhead];
    for (int k = 0; k < kReadAhead; ++k) {
      const int v = first + k * blockDim.x;
      logit[k] = v < V ? widen(x[v]) : -INFINITY;  // the exponential of minus infinity is 0
    }
    for (const float next : logit) {
      const float above = next - max;
      // Exponential of the smaller one, relative to the larger one.
      const float smaller = expf(-fabsf(above));
      sum = above > 0 ? sum * smaller + 1 : sum + smaller;
      max = above > 0 ? next : max;
    }
  }
  const float row_max = over_block(max, Max{});
  sum = over_block(sum * expf(max - row_max), Sum{});
  if (threadIdx.x == 0) write_loss(row_max, sum, 0, t, t < 0 ? 0 : widen(x[t]), &loss[n], &lse[n]);
}

// One block computes one row, in place.
template <class T>
__global__ void backward(T* logits, const std::int32_t* target, const float* lse, float scale,
                         int V) {
  const std::int64_t n = blockIdx.x;
  T* x = logits + n * V;
  const std::int32_t t = checked(target[n], V);
  const float row_lse = lse[n];
  for (std::int64_t begin = 0; begin < V; begin += kStretch) {
    make_each(begin, V, x, [=](std::int64_t v) {
      const float gradient = scale * expf(widen(x[v]) - row_lse) - (v == t ? scale : 0);
      return narrow_to<T>(t < 0 ? 0 : gradient);
    });
  }
}

constexpr int kHeld = 7;      // packs of a row that a thread of classify() keeps in registers
constexpr int kBlock = 1024;  // threads of classify()

// Eight bfloat16 logits, two in each word. A thread reads and writes them in one access.
struct alignas(16) Eight {
  unsigned words[4];
  static constexpr int kCount = 8;

  __device__ float operator[](int i) const {
    return i % 2 == 0 ? flash::low(words[i / 2]) : flash::high(words[i / 2]);
  }
};

// Makes the compiler forget the float32 values that it has made of the words, because all logits of
// a row as float32 would not fit into the registers.
__device__ void keep_packed(Eight (&held)[kHeld]) {
#pragma unroll
  for (Eight& x : held) {
#pragma unroll
    for (unsigned& word : x.words) asm volatile("" : "+r"(word));
  }
}

// Forward and backward in one kernel: a row is read once, and stays in registers until its gradient
// replaces it. One block fills a multiprocessor, so the number of instructions for each logit
// matters. An exponential is computed as 2 to the power of log2(e) x - base, with `base` = log2(e)
// max, rounded. The rounding adds the same number to every exponent, which cancels in the gradient;
// the loss subtracts it.
__global__ void __launch_bounds__(kBlock) classify(Eight* logits, const std::int32_t* target,
                                                   float* loss, float* lse, float scale, int V) {
  constexpr unsigned kNothing = 0xff80ff80u;  // two times minus infinity, whose exponential is 0
  constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
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
    for (int i = 0; i < Eight::kCount; ++i) max = fmaxf(max, x[i]);
  }
  keep_packed(held);
  max = over_block(max, Max{});
  const float base = kLog2E * max;
#pragma unroll
  for (const Eight& x : held) {
#pragma unroll
    for (int i = 0; i < Eight::kCount; ++i) sum += flash::power_of_2(fmaf(kLog2E, x[i], -base));
  }
  keep_packed(held);
  sum = over_block(sum, Sum{});
  const float share = scale / sum;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = k * kBlock + threadIdx.x;
    float x[Eight::kCount];
#pragma unroll
    for (int j = 0; j < Eight::kCount; ++j) {
      x[j] = share * flash::power_of_2(fmaf(kLog2E, held[k][j], -base));
    }
    if (t / Eight::kCount == i) {
#pragma unroll
      for (int j = 0; j < Eight::kCount; ++j) x[j] -= t % Eight::kCount == j ? scale : 0;
    }
    Eight gradients = {};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (t >= 0) gradients.words[w] = flash::pack(x[2 * w], x[2 * w + 1]);
    }
    if (i < packs) row[i] = gradients;
  }
  // The loss comes last, because it takes registers too.
  const float rounded = kLn2 * fmaf(kLog2E, max, -base);
  if (threadIdx.x == 0) write_loss(max, sum, rounded, t, of_target, &loss[n], &lse[n]);
}

void add_to_total(Stream& stream, const Tensor& loss, const Tensor& total) {
  if (total.empty()) return;
  launch(stream, 1, kThreads, add_up<float>, loss.f32(), loss.numel(), total.data<double>());
}

}  // namespace

void run_on_gpu(Stream& stream, const CrossEntropyForward& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  for_type_of(a.logits, [&]<class T>(T) {
    launch(stream, blocks_for(N, 1), threads_for(V), forward<T>, a.logits.data<T>(),
           a.target.data<std::int32_t>(), a.loss.f32(), a.lse.f32(), V);
  });
  add_to_total(stream, a.loss, a.total);
}

void run_on_gpu(Stream& stream, const CrossEntropyBackward& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  for_type_of(a.logits, [&]<class T>(T) {
    launch(stream, blocks_for(N, 1), kThreads, backward<T>, a.logits.data<T>(),
           a.target.data<std::int32_t>(), a.lse.f32(), a.scale, V);
  });
}

void run_on_gpu(Stream& stream, const CrossEntropy& a) {
  const std::int64_t N = a.logits.dim(0), V = a.logits.dim(1);
  const bool packed =
      V % Eight::kCount == 0 && V <= kHeld * kBlock * Eight::kCount && fits_packs(a.logits);
  if (a.logits.dtype() == DType::float32 || !packed) {
    const CrossEntropyForward& forward = a;
    run_on_gpu(stream, forward);
    return run_on_gpu(stream, CrossEntropyBackward{a.logits, a.target, a.lse, a.scale});
  }
  launch(stream, blocks_for(N, 1), kBlock, classify,
         reinterpret_cast<Eight*>(a.logits.data<bfloat16>()), a.target.data<std::int32_t>(),
         a.loss.f32(), a.lse.f32(), a.scale, V);
  add_to_total(stream, a.loss, a.total);
}

}  // namespace nanofsdp::ops
