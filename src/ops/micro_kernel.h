#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace nanofsdp::ops {

/// @file
/// @brief The innermost loop of every matrix product of the CPU operators. Internal to gemm.
///
/// It makes a tile of C, kRows x kCols, whose sums stay in registers while the depth is gone
/// through: each step loads kRows + kCols numbers and does kRows * kCols multiply-adds. (Goto and
/// van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication; BLIS calls it the
/// micro-kernel.) An element of a tile is one sum in the order of the depth, wherever the tile
/// lies.

#if defined(__AVX512F__)
constexpr int kLanes = 16;  ///< floats in a register
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

// Two registers of C for each row, two of B and one of A; the processor has 32, or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
constexpr int kCols = 2 * kLanes;

constexpr std::int64_t kDepth = 256;               ///< of a tile, at most: kCols of it fit in L1
constexpr std::int64_t kStride = kDepth + kLanes;  ///< of a packed row of A

/// A register, as GCC and Clang write it for any processor.
using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;

template <class V = Vector>
V load(const float* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V>
void store(float* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

// The loop that follows, written out, so that what it keeps in arrays stays in registers.
#ifdef __clang__
#define NANOFSDP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NANOFSDP_UNROLL _Pragma("GCC unroll 16")
#endif

/// What a kernel works on. B is packed: its rows are kCols apart.
struct Tile {
  const float* a;
  const float* b;
  std::int64_t depth;
  float* c;
  std::int64_t stride;  ///< of C
  std::int64_t cols;    ///< of C, at most kCols
  bool add;             ///< C += instead of C =
};

/// The first n lanes of a register, to or onto c.
inline void put(float* c, const Vector& sum, std::int64_t n, bool add) {
  if (n >= kLanes) return store(c, add ? load(c) + sum : sum);
  for (int lane = 0; lane < n; ++lane) c[lane] = add ? c[lane] + sum[lane] : sum[lane];
}

/// C = A B for `rows` rows; element (i, k) of A is a[i * row + k * step].
template <int rows, std::int64_t row, std::int64_t step>
void make_tile(const Tile& t) {
  for (int i = 0; i < rows; ++i) {  // C is needed last: ask for it first
    __builtin_prefetch(t.c + i * t.stride, 1);
    __builtin_prefetch(t.c + i * t.stride + t.cols - 1, 1);
  }
  Vector left[rows] = {}, right[rows] = {};
  for (std::int64_t k = 0; k < t.depth; ++k) {
    const Vector b_left = load(t.b + k * kCols), b_right = load(t.b + k * kCols + kLanes);
    NANOFSDP_UNROLL
    for (int i = 0; i < rows; ++i) {
      const float a = t.a[i * row + k * step];
      left[i] += a * b_left;
      right[i] += a * b_right;
    }
  }
  NANOFSDP_UNROLL
  for (int i = 0; i < rows; ++i) {
    put(t.c + i * t.stride, left[i], t.cols, t.add);
    put(t.c + i * t.stride + kLanes, right[i], t.cols - kLanes, t.add);
  }
}

/// One column of C = A B^T, where a tile would make kCols: dot products, kLanes steps of the depth
/// at once. A as packed for nt, b the row of B; both go on with zeros to a whole register.
template <int rows>
void make_column(const Tile& t) {
  Vector sum[rows] = {};
  for (std::int64_t k = 0; k < t.depth; k += kLanes) {
    const Vector b = load(t.b + k);
    NANOFSDP_UNROLL
    for (int i = 0; i < rows; ++i) sum[i] += load(t.a + i * kStride + k) * b;
  }
  NANOFSDP_UNROLL
  for (int i = 0; i < rows; ++i) {
    float lanes[kLanes];
    store(lanes, sum[i]);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    float& c = t.c[i * t.stride];
    c = t.add ? c + lanes[0] : lanes[0];
  }
}

/// f with the number of rows, 1 to kRows, as a constant.
template <int most = kRows, class F>
void with_rows(std::int64_t rows, F f) {
  if constexpr (most > 1) {
    if (rows < most) return with_rows<most - 1>(rows, f);
  }
  f(std::integral_constant<int, most>());
}

}  // namespace nanofsdp::ops
