#pragma once

#include <cuda_bf16.h>
#include <mma.h>

#include <type_traits>

#include "ops/tile.cuh"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief Products of [64, 64] with [64, 64], made by one block on tensor cores: factors rounded to
/// bfloat16, sums in float32. Internal to attention.
///
/// A warp multiplies together, and each of the eight makes 16 x 32 of the sums. They stay where
/// they are made for as long as more is added to them.

namespace wmma = nvcuda::wmma;

constexpr int kEdge = 16;  ///< of what a warp multiplies at once: all three matrices are [16, 16]

/// [64, 64] in shared memory. Eight numbers more a row: they begin in different banks.
struct alignas(32) NarrowTile {
  __nv_bfloat16 rows[kTile][kTile + 8];
};

/// A thread's part of 64 rows of 64, on its way from memory.
struct Fetched {
  float4 x[kEach];
};
__device__ inline int fetched_row(int i) {
  return static_cast<int>(threadIdx.x) / kSide + kSide * i;
}
__device__ inline int fetched_column() { return static_cast<int>(threadIdx.x) % kSide * 4; }

/// The rows from `first` on, which begin at multiples of 16 bytes; zeros where there are none.
__device__ inline Fetched fetch(const Rows& from, int first) {
  Fetched fetched;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int t = first + fetched_row(i);
    fetched.x[i] = make_float4(0, 0, 0, 0);
    if (t < from.T) {
      fetched.x[i] = *reinterpret_cast<const float4*>(from.row(t) + fetched_column());
    }
  }
  return fetched;
}

__device__ inline void put(const Fetched& fetched, NarrowTile& to) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    __nv_bfloat16* const row = &to.rows[fetched_row(i)][fetched_column()];
    row[0] = __float2bfloat16_rn(fetched.x[i].x);
    row[1] = __float2bfloat16_rn(fetched.x[i].y);
    row[2] = __float2bfloat16_rn(fetched.x[i].z);
    row[3] = __float2bfloat16_rn(fetched.x[i].w);
  }
}

/// Copies rows of a and of b, when everyone has multiplied by the last ones.
__device__ inline void stage(const Rows& a, const Rows& b, int first, NarrowTile& to_a,
                             NarrowTile& to_b) {
  const Fetched of_a = fetch(a, first), of_b = fetch(b, first);  // both on their way at once
  __syncthreads();
  put(of_a, to_a);
  put(of_b, to_b);
  __syncthreads();
}

using Sum16 = wmma::fragment<wmma::accumulator, kEdge, kEdge, kEdge, float>;

/// Which elements of the sums [16, 16] of its warp a thread has. CUDA does not say, so the thread
/// loads a matrix whose elements are their own numbers. The whole block must come.
class Places {
 public:
  __device__ Places() {
    __shared__ struct alignas(32) { float of[kThreads]; } numbers;
    numbers.of[threadIdx.x] = static_cast<float>(threadIdx.x);
    __syncthreads();
    Sum16 loaded;
    wmma::load_matrix_sync(loaded, numbers.of, kEdge, wmma::mem_row_major);
    for (int e = 0; e < Sum16::num_elements; ++e) number_[e] = static_cast<unsigned>(loaded.x[e]);
  }
  __device__ int row(int e) const { return static_cast<int>(number_[e] / kEdge); }
  __device__ int column(int e) const { return static_cast<int>(number_[e] % kEdge); }

 private:
  unsigned number_[Sum16::num_elements];
};

/// The sums of this warp, [16, 32] of the block's [64, 64]; zero at first.
class Sums {
 public:
  __device__ Sums() {
    for (Sum16& half : halves_) wmma::fill_fragment(half, 0);
  }

  /// Adds a x b, or a x b^T where the order of b is col_major.
  template <class Order>
  __device__ void add_product(const NarrowTile& a, const NarrowTile& b) {
#pragma unroll
    for (int k = 0; k < kTile; k += kEdge) {
      Factor<wmma::matrix_a, wmma::row_major> of_a;
      wmma::load_matrix_sync(of_a, &a.rows[row()][k], kTile + 8);
      for (int half = 0; half < 2; ++half) {
        constexpr bool kTransposed = std::is_same_v<Order, wmma::col_major>;
        Factor<wmma::matrix_b, Order> of_b;
        wmma::load_matrix_sync(
            of_b, kTransposed ? &b.rows[column(half)][k] : &b.rows[k][column(half)], kTile + 8);
        wmma::mma_sync(halves_[half], of_a, of_b, halves_[half]);
      }
    }
  }

  /// Calls visit(row, column, sum) for each sum that this thread has; beside it those of `more`, at
  /// the same place.
  template <class Visit, class... More>
  __device__ void each(const Places& places, const Visit& visit, More&... more) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = 0; e < Sum16::num_elements; ++e) {
        visit(row() + places.row(e), column(half) + places.column(e), halves_[half].x[e],
              more.halves_[half].x[e]...);
      }
    }
  }

  /// Leaves them at to[row][column].
  template <int kStride>
  __device__ void store(float (&to)[kTile][kStride]) const {
    for (int half = 0; half < 2; ++half) {
      wmma::store_matrix_sync(&to[row()][column(half)], halves_[half], kStride,
                              wmma::mem_row_major);
    }
  }

 private:
  template <class Side, class Order>
  using Factor = wmma::fragment<Side, kEdge, kEdge, kEdge, __nv_bfloat16, Order>;

  __device__ static int row() { return static_cast<int>(threadIdx.x / kWarp) % 4 * kEdge; }
  __device__ static int column(int half) {
    return (static_cast<int>(threadIdx.x / kWarp) / 4 * 2 + half) * kEdge;
  }

  Sum16 halves_[2];
};

/// Rounds sums, so that they become factors; when everyone has multiplied by the last ones.
__device__ inline void make_factors(const Places& places, Sums& sums, NarrowTile& factors) {
  __syncthreads();
  sums.each(places, [&](int row, int column, float sum) {
    factors.rows[row][column] = __float2bfloat16_rn(sum);
  });
  __syncthreads();
}

/// to[first + row][column] = sum, where there is such a row.
__device__ inline void write(const Places& places, Sums& sums, const Rows& to, int first) {
  sums.each(places, [&](int row, int column, float sum) {
    if (first + row < to.T) to.row(first + row)[column] = sum;
  });
}

}  // namespace nanofsdp::ops::cuda
