#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/register.h"
#include "ops/gemm.h"

namespace nanofsdp::ops {

/// @file
/// @brief The innermost loop of every matrix product of the CPU operators. It works on vectors of
/// floats, one register each, in a form that GCC and Clang compile for any processor. Internal to
/// gemm.
///
/// The kernel makes a tile of C, kRows x kCols. The sums of the tile stay in registers while the
/// kernel walks along the depth: each step loads kRows + kCols numbers and does kRows * kCols
/// multiply-adds. (Goto and van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication;
/// BLIS calls it the micro-kernel.) An element of a tile is one sum in the order of the depth,
/// wherever the tile lies. Meanwhile the kernel asks memory for the data of the next tiles.

constexpr int kLanes = kRegisterBytes / sizeof(float);  ///< floats in a register

using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Lanes = std::make_integer_sequence<int, kLanes>;

// The loop that follows is unrolled, so that its arrays stay in registers.
#ifdef __clang__
#define NANOFSDP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NANOFSDP_UNROLL _Pragma("GCC unroll 16")
#endif

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }

/// Picks lanes of a, and lanes of b by the numbers from kLanes on.
template <int... lane>
Vector pick(Vector a, Vector b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, lane...);
#else  // GCC 11
  using Indices [[gnu::vector_size(sizeof(Vector))]] = int;
  return __builtin_shuffle(a, b, Indices{lane...});
#endif
}

/// The sum over the lanes: halves are added, then quarters, and so on.
template <int span = kLanes / 2, int... lane>
float sum_of(Vector v, std::integer_sequence<int, lane...> lanes) {
  v += pick<(lane ^ span)...>(v, v);
  if constexpr (span > 1) return sum_of<span / 2>(v, lanes);
  return v[0];
}

/// Transposes kLanes rows of kLanes: rows that are half of them apart exchange halves, and so on
/// down to neighbours, which exchange single lanes.
template <int span = kLanes / 2, int... lane>
void turn(Vector (&rows)[kLanes], std::integer_sequence<int, lane...> lanes) {
  NANOFSDP_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if (i & span) continue;
    const Vector a = rows[i], b = rows[i + span];
    rows[i] = pick<(lane & span ? kLanes + lane - span : lane)...>(a, b);
    rows[i + span] = pick<(lane & span ? kLanes + lane : lane + span)...>(a, b);
  }
  if constexpr (span > 1) turn<span / 2>(rows, lanes);
}

// Two registers of C for each row, two of B and one of A; the processor has 32, or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
constexpr int kCols = 2 * kLanes;

constexpr std::int64_t kDepth = 256;  ///< largest depth of a tile: kCols columns of it fit into L1
constexpr std::int64_t kStride = kDepth + kLanes;  ///< floats of a packed row of A

/// Asks memory for a matrix that will be needed, in a number of steps. To ask for all of it at once
/// would not do: a core waits for a dozen cache lines at a time, and the data that it needs now
/// would wait behind the others.
class Ahead {
 public:
  Ahead(const Matrix& m, std::int64_t steps)
      : rest_(m),
        lines_(m.rows * ((m.cols + kLine - 1) / kLine) / std::max<std::int64_t>(steps, 1) + 1) {}

  /// Asks for the next few cache lines.
  void ask() {
    for (std::int64_t i = 0; i < lines_ && rest_.rows > 0; ++i) {
      __builtin_prefetch(rest_.data + col_);
      col_ += kLine;
      if (col_ < rest_.cols) continue;
      rest_ = rest_.row_range(1, rest_.rows);
      col_ = 0;
    }
  }

 private:
  static constexpr std::int64_t kLine = 16;  // floats of a cache line
  Matrix rest_;
  std::int64_t lines_;  // cache lines for each step
  std::int64_t col_ = 0;
};

constexpr std::int64_t kStep = 16;  ///< depth from one step of Ahead to the next

/// Returns the same address, but only when both sums are computed, so nothing is loaded from it
/// before. Otherwise GCC would load a whole column of A first, and on ARM it would then have no
/// registers for four of the sums.
inline const float* once([[maybe_unused]] Vector& left, [[maybe_unused]] Vector& right,
                         const float* p) {
#if defined(__aarch64__)
  asm("" : "+r"(p), "+w"(left), "+w"(right));
#endif
  return p;
}

/// The operands of a kernel. B is packed: its rows are kCols apart.
struct Tile {
  const float* a;
  const float* b;
  std::int64_t depth;
  float* c;
  std::int64_t stride;  ///< stride of C
  std::int64_t cols;    ///< columns of C, at most kCols
  bool add;             ///< whether C += A B, not C = A B
  Ahead& ahead;
};

/// Stores the first n lanes of a register in c, or adds them to c.
inline void put(float* c, Vector sum, std::int64_t n, bool add) {
  if (n >= kLanes) return store(c, add ? load(c) + sum : sum);
  float lanes[kLanes];
  store(lanes, sum);
  for (int lane = 0; lane < n; ++lane) c[lane] = add ? c[lane] + lanes[lane] : lanes[lane];
}

/// C = A B for `rows` rows; element (i, k) of A is a[i * row + k * column].
template <int rows, std::int64_t row, std::int64_t column>
void make_tile(const Tile& t) {
  Vector left[rows], right[rows];  // GCC would clear memory for `= {}`
  NANOFSDP_UNROLL
  for (int i = 0; i < rows; ++i) left[i] = right[i] = Vector{};
  const float *a = t.a, *b = t.b;
  const float *c = t.c, *c_end = c + rows * t.stride;
  for (std::int64_t k = 0; k < t.depth; k += kStep) {
    // C is needed last: two rows in each step.
    for (int i = 0; i < 2 && c < c_end; ++i, c += t.stride) {
      __builtin_prefetch(c, 1);
      __builtin_prefetch(c + t.cols - 1, 1);
    }
    t.ahead.ask();
    const float* b_end = b + std::min(kStep, t.depth - k) * kCols;
    for (; b < b_end; a += column, b += kCols) {
      const Vector b_left = load(b), b_right = load(b + kLanes);
      const float* now = a;
      NANOFSDP_UNROLL
      for (int i = 0; i < rows; ++i) {
        // Three rows load, one row multiplies.
        if (i >= 3) now = once(left[i - 3], right[i - 3], now);
        left[i] += now[i * row] * b_left;
        right[i] += now[i * row] * b_right;
      }
    }
  }
  const auto put_all = [&](auto cols, auto add) {
    NANOFSDP_UNROLL
    for (int i = 0; i < rows; ++i) {
      put(t.c + i * t.stride, left[i], cols, add);
      put(t.c + i * t.stride + kLanes, right[i], cols - kLanes, add);
    }
  };
  using Whole = std::integral_constant<int, kCols>;  // decided once, not for every register
  if (t.cols < kCols) {
    put_all(t.cols, t.add);
  } else if (t.add) {
    put_all(Whole(), std::true_type());
  } else {
    put_all(Whole(), std::false_type());
  }
}

/// Makes one column of C = A B^T, where a tile would make kCols columns. It computes dot products,
/// kLanes steps of the depth at once. A is packed as for nt, and b is the row of B; zeros fill both
/// up to a whole register.
template <int rows>
void make_column(const Tile& t) {
  Vector sums[rows];
  NANOFSDP_UNROLL
  for (int i = 0; i < rows; ++i) sums[i] = Vector{};
  for (std::int64_t k = 0; k < t.depth; k += kLanes) {
    const Vector b = load(t.b + k);
    NANOFSDP_UNROLL
    for (int i = 0; i < rows; ++i) sums[i] += load(t.a + i * kStride + k) * b;
  }
  NANOFSDP_UNROLL
  for (int i = 0; i < rows; ++i) {
    float& c = t.c[i * t.stride];
    const float sum = sum_of(sums[i], Lanes());
    c = t.add ? c + sum : sum;
  }
}

/// Calls f with the number of rows, 1 to kRows, as a constant.
template <int most = kRows, class F>
void with_rows(std::int64_t rows, F f) {
  if constexpr (most > 1) {
    if (rows < most) return with_rows<most - 1>(rows, f);
  }
  f(std::integral_constant<int, most>());
}

}  // namespace nanofsdp::ops
