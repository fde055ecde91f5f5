#pragma once

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief Products of 64 rows with 64 other rows, computed by one block. Internal to attention.
///
/// Both sets of rows are staged in shared memory, 64 features at a time (a slice). Each of 16 x 16
/// threads computes 4 x 4 of the 64 x 64 results. So a number from shared memory is used four
/// times, and a number from global memory 64 times. The own rows of a thread are neighbours, and
/// its other rows are 16 apart. So no two threads that read together need different words of one
/// bank.

constexpr int kTile = 64;
constexpr int kSide = 16;
constexpr int kEach = kTile / kSide;

/// The rows and columns of a tile of results that belong to this thread.
__device__ inline int own(int i) { return static_cast<int>(threadIdx.x) / kSide * kEach + i; }
__device__ inline int other(int j) { return static_cast<int>(threadIdx.x) % kSide + kSide * j; }

using Scores = float[kEach][kEach];  ///< [i][j] at (own(i), other(j))
template <int kSlices>
using Output = float[kSlices][kEach][kEach];  ///< [slice][i][c] at row own(i), feature feature_of()

__device__ inline int feature_of(int slice, int c) {
  return slice * kTile + static_cast<int>(threadIdx.x) % kSide * kEach + c;
}

/// A matrix [T, D] in global memory, with rows `stride` elements apart.
template <class Element>
struct Rows {
  Element* data;
  int stride, T, D;
  __device__ Element* row(int t) const { return data + static_cast<std::int64_t>(t) * stride; }
};

/// A matrix [64, 64] in shared memory, in packs of four features. Each row has one more pack, so
/// neighbouring rows begin in different banks.
struct Tile {
  Pack<float, 4> rows[kTile][kTile / 4 + 1];
  __device__ float* row(int r) { return rows[r][0].values; }
};

/// The shared memory of a block.
struct Tiles {
  Tile own, other;
};

/// Copies a slice of the 64 rows from `first` on, and writes zeros for rows that do not exist.
template <class T>
__device__ void stage(const Rows<T>& from, int first, int slice, Tile& to) {
  constexpr int kStep = kThreads / kTile;
  const int column = threadIdx.x % kTile, begin = threadIdx.x / kTile, d = slice * kTile + column;
  const int count = d < from.D ? min(from.T - first, kTile) : 0;
  const T* source = from.row(first + begin) + d;
#pragma unroll 8
  for (int r = 0; r < kTile; r += kStep) {
    to.row(begin + r)[column] = begin + r < count ? widen(*source) : 0.0f;
    source += kStep * from.stride;
  }
}

// The innermost loops are not unrolled. 64 multiply-adds in a row are enough, and more would need
// more than the 128 registers with which two blocks fit on a multiprocessor.

/// scores += a[a_first + own(i)] . b[b_first + other(j)], over all features.
template <int kSlices, class T>
__device__ void add_products(Tiles& tiles, const Rows<T>& a, int a_first, const Rows<T>& b,
                             int b_first, Scores& scores) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    __syncthreads();  // all threads have read the last slice
    stage(a, a_first, slice, tiles.own);
    stage(b, b_first, slice, tiles.other);
    __syncthreads();
#pragma unroll 1
    for (int d = 0; d < kTile / 4; ++d) {
      Pack<float, 4> x[kEach];
      for (int i = 0; i < kEach; ++i) x[i] = tiles.own.rows[own(i)][d];
      for (int j = 0; j < kEach; ++j) {
        const Pack<float, 4> y = tiles.other.rows[other(j)][d];
        for (int i = 0; i < kEach; ++i) {
          for (int k = 0; k < 4; ++k) scores[i][j] += x[i].values[k] * y.values[k];
        }
      }
    }
  }
}

/// out[own(i)] += the sum over the other rows j of scores[own(i), j] * b[first + j].
template <int kSlices, class T>
__device__ void add_weighted(Tiles& tiles, const Scores& scores, const Rows<T>& b, int first,
                             Output<kSlices>& out) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    __syncthreads();  // all threads have read the last slice
    for (int i = 0; slice == 0 && i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) tiles.own.row(own(i))[other(j)] = scores[i][j];
    }
    stage(b, first, slice, tiles.other);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kTile; j += 4) {
      Pack<float, 4> x[4];
      for (int k = 0; k < 4; ++k) x[k] = tiles.other.rows[j + k][threadIdx.x % kSide];
      for (int i = 0; i < kEach; ++i) {
        const Pack<float, 4> weights = tiles.own.rows[own(i)][j / 4];
        for (int k = 0; k < 4; ++k) {
          for (int c = 0; c < kEach; ++c) out[slice][i][c] += weights.values[k] * x[k].values[c];
        }
      }
    }
  }
}

/// Writes to[first + own(i)] = out[own(i)] for the rows and features that exist.
template <int kSlices, class T>
__device__ void write(const Output<kSlices>& out, const Rows<T>& to, int first) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    for (int i = 0; i < kEach; ++i) {
      for (int c = 0; c < kEach; ++c) {
        const int t = first + own(i), d = feature_of(slice, c);
        if (t < to.T && d < to.D) to.row(t)[d] = narrow_to<T>(out[slice][i][c]);
      }
    }
  }
}

}  // namespace nanofsdp::ops::cuda
