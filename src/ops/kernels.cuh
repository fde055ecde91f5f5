#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/device.cuh"
#include "base/tensor.h"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief The functions that kernels share: launches, loops over n elements, and sums and maxima
/// over a warp and a block. Internal to ops.
///
/// Kernels are written so that they also run under the emulation of tests/emulation. So launch()
/// launches them, all lanes of a warp take part in every shuffle, and they use no special
/// instructions except those of flash/warp_matrix.cuh, which the emulation has too. The order of
/// every sum depends only on shapes, so every run gives the same bits.

using nanofsdp::cuda::launch;
using nanofsdp::cuda::Scratch;
using nanofsdp::cuda::scratch;

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;  ///< threads of a block, unless a kernel needs another number
constexpr int kReadAhead = 4;       ///< elements that a thread loads before it uses the first

/// The number of blocks of `per_block` elements that cover n.
inline unsigned blocks_for(std::int64_t n, std::int64_t per_block = kThreads) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

/// Threads of a block that shares a row of n elements: one for eight elements. So the rows in work
/// fit into the first-level cache, and a thread has enough work between barriers.
inline unsigned threads_for(std::int64_t n) {
  return kWarp * std::clamp(blocks_for(n, 8 * kWarp), 1u, kThreads / kWarp);
}

/// This thread's number in a grid of one dimension.
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// The number of elements that a block of make_each() makes.
constexpr std::int64_t kStretch = kReadAhead * kThreads;

/// A block of kThreads writes out[i] = make(i) for the kStretch elements from `begin` on, or up to
/// `end`; there must be at least one. All elements are made before the first is written. Many loads
/// are then under way at once, and memory is busy without wider loads, which would need rows that
/// begin at multiples of 16 bytes. Because of this order, make(i) may also read out[i]. Threads
/// beyond the end make the last element without need, because a branch would make the loads wait
/// for earlier work.
template <class T, class Make>
__device__ void make_each(std::int64_t begin, std::int64_t end, T* out, const Make& make) {
  T made[kReadAhead];
  for (int k = 0; k < kReadAhead; ++k) {
    const std::int64_t i = begin + k * kThreads + threadIdx.x;
    made[k] = make(i < end ? i : end - 1);
  }
  for (int k = 0; k < kReadAhead; ++k) {
    const std::int64_t i = begin + k * kThreads + threadIdx.x;
    if (i < end) out[i] = made[k];
  }
}

template <class T, class Make>
__global__ void make_all(std::int64_t n, T* out, Make make) {
  make_each(blockIdx.x * kStretch, n, out, make);
}

/// Launches out[i] = make(i) for every i < n.
template <class T, class Make>
void elementwise(Stream& stream, std::int64_t n, T* out, const Make& make) {
  launch(stream, blocks_for(n, kStretch), kThreads, make_all<T, Make>, n, out, make);
}

/// Rows of results: `numel` elements in all, `row` in each, the last one may have fewer. Rows begin
/// `stride` elements apart.
struct Extents {
  std::int64_t numel, row, stride;
};

// Blocks along x share a row, and blocks along y share the rows. So no thread needs a division to
// find its element, and what depends on the row alone is computed once.
template <class T, class Make>
__global__ void make_rows(Extents a, T* out, Make make) {
  const std::int64_t begin = blockIdx.x * kStretch;
  for (std::int64_t q = blockIdx.y; q * a.row + begin < a.numel; q += gridDim.y) {
    make_each(begin, min(a.row, a.numel - q * a.row), out + q * a.stride,
              [&](std::int64_t i) { return make(q, i); });
  }
}

/// Launches out[q * stride + i] = make(q, i) for element i of every row q.
template <class T, class Make>
void rowwise(Stream& stream, const Extents& a, T* out, const Make& make) {
  // Enough blocks to fill any GPU. If there are more rows, each block takes several.
  constexpr std::int64_t kRowsAtOnce = 1024;
  const std::int64_t rows = (a.numel + a.row - 1) / a.row;
  const dim3 blocks(blocks_for(std::min(a.row, a.numel), kStretch),
                    static_cast<unsigned>(std::min(rows, kRowsAtOnce)));
  launch(stream, blocks, kThreads, make_rows<T, Make>, a, out, make);
}

/// Converts an element of a tensor to float32, in which kernels compute.
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bfloat16 x) { return to_float32(x); }

/// Converts a result to an element of a tensor of T. The hardware rounds bfloat16 to nearest even.
template <class T>
__device__ T narrow_to(float x) {
  if constexpr (sizeof(T) == 4)
    return x;
  else
    return __builtin_bit_cast(T, __float2bfloat16_rn(x));
}

/// Neighbouring elements that a thread reads or writes in one access of 16 bytes, or in two.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Pack {
  T values[n];
};
constexpr int kPack = 8;  ///< elements of a pack, if all tensors of a call allow packs

/// Whether a pack may begin at the first element and at every kPack-th element after it.
template <class... Tensors>
bool fits_packs(const Tensors&... tensors) {
  return ((reinterpret_cast<std::uintptr_t>(tensors.raw()) % 16 == 0) && ...);
}

/// Calls launch_for(T{}) for the element type T of a tensor.
template <class Launch>
void for_type_of(const Tensor& tensor, const Launch& launch_for) {
  tensor.dtype() == DType::bfloat16 ? launch_for(bfloat16{}) : launch_for(float{});
}

/// Calls launch_for(T{}, W{}) for activations of T and a parameter of W, which is T or bfloat16.
template <class Launch>
void for_types_of(const Tensor& x, const Tensor& parameter, const Launch& launch_for) {
  for_type_of(parameter, [&]<class W>(W w) {
    x.dtype() == DType::bfloat16 ? launch_for(W{}, w) : launch_for(float{}, w);
  });
}

template <int n>
using PackOf = std::integral_constant<int, n>;

/// Calls launch_for(PackOf<n>{}), where a pack has n elements: `most` if the tensors of a call
/// allow that, else one.
template <int most, class Launch>
void for_packs(bool allowed, const Launch& launch_for) {
  allowed ? launch_for(PackOf<most>{}) : launch_for(PackOf<1>{});
}

/// The packs of a tensor of T.
template <class T, int n>
Pack<T, n>* packs_of(const Tensor& x) {
  return static_cast<Pack<T, n>*>(x.raw());
}

/// Makes a pack of results from packs of two operands.
template <class T, int n, class Op>
struct EachOf {
  const Pack<T, n>*a, *b;
  Op op;
  __device__ Pack<T, n> operator()(std::int64_t i) const {
    Pack<T, n> x = a[i];
    const Pack<T, n> y = b[i];
    for (int k = 0; k < n; ++k)
      x.values[k] = narrow_to<T>(op(widen(x.values[k]), widen(y.values[k])));
    return x;
  }
};

/// Launches out = op(a, b) for every element. All tensors are float32, or all bfloat16; `out` may
/// be an operand. If op ignores its second argument, no kernel reads b. An element's bits do not
/// depend on where it lies.
template <class Op>
void map(Stream& stream, const Tensor& out, const Op& op, const Tensor& a, const Tensor& b) {
  const std::int64_t numel = out.numel();
  for_type_of(out, [&]<class T>(T) {
    for_packs<kPack>(numel % kPack == 0 && fits_packs(out, a, b), [&]<int n>(PackOf<n>) {
      elementwise(stream, numel / n, packs_of<T, n>(out),
                  EachOf<T, n, Op>{packs_of<T, n>(a), packs_of<T, n>(b), op});
    });
  });
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// Combines the 32 values of a warp by `combine`, or the values of every `lanes` neighbours (a
/// power of two). Each lane gets the result.
template <class T, class Combine>
__device__ T over_warp(T value, Combine combine, unsigned lanes = kWarp) {
  for (unsigned mask = lanes / 2; mask > 0; mask /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, mask));
  }
  return value;
}

/// The same over a block, which must have one dimension and whole warps, 1024 threads at most.
/// Every thread gets the result. All threads of the block must call it.
template <class T, class Combine>
__device__ T over_block(T value, Combine combine) {
  __shared__ T of_warp[kWarp];
  value = over_warp(value, combine);
  const unsigned warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned w = 1; w < warps; ++w) value = combine(value, of_warp[w]);
  __syncthreads();  // all threads have read before the next call writes
  return value;
}

/// The sum of term(i) over i < n. The whole block computes it in T, and every thread gets it. The
/// loop loads several terms ahead, because compilers do not unroll a loop whose stride they do not
/// know.
template <class T, class Term>
__device__ T block_sum(int n, const Term& term) {
  const int stride = blockDim.x;
  T sum = 0;
  for (int first = threadIdx.x; first < n; first += kReadAhead * stride) {
    T terms[kReadAhead];
    for (int k = 0; k < kReadAhead; ++k) {
      const int i = first + k * stride;
      terms[k] = i < n ? term(i) : 0;
    }
    for (const T next : terms) sum += next;
  }
  return over_block(sum, Sum{});
}

/// out[b] += the n numbers from x[b * n] on, in double. Block b does this as the last step of a
/// sum.
template <class T>
__global__ void add_up(const T* x, int n, double* out) {
  x += std::int64_t{blockIdx.x} * n;
  const double sum = block_sum<double>(n, [=](int i) { return static_cast<double>(x[i]); });
  if (threadIdx.x == 0) out[blockIdx.x] += sum;
}

// A block of add_columns() sums eight neighbouring columns. In each row of float32 they are one
// sector of memory, so it reads no byte without need; in bfloat16 two blocks share a sector. The
// rows of its threads take the rows of x in turn.
constexpr unsigned kColumns = 8;
constexpr unsigned kTurns = 64;

/// sums[c] += the sum of column c of x [rows, stride], for the first `cols` columns. The blocks
/// y = 1 do the same for `more` with the next `cols` columns. Nothing is done for sums that are not
/// there.
template <class T>
__global__ void add_columns(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                            float* sums, float* more) {
  __shared__ float parts[kTurns][kColumns];
  float* const to = blockIdx.y == 0 ? sums : more;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  x += blockIdx.y * cols;
  float sum = 0;
  if (col < cols && to != nullptr) {
    for (std::int64_t row = threadIdx.y; row < rows; row += kTurns)
      sum += widen(x[row * stride + col]);
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= cols || to == nullptr) return;
  for (unsigned turn = 1; turn < kTurns; ++turn) sum += parts[turn][threadIdx.x];
  to[col] += sum;
}

}  // namespace nanofsdp::ops::cuda
