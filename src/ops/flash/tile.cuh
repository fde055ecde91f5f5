#pragma once

#include "ops/attention.cuh"
#include "ops/flash/warp_matrix.cuh"

namespace nanofsdp::ops::cuda::flash {

/// @file
/// @brief The parts that the kernels of flash attention share: copies of rows to shared memory, and
/// the two products that all kernels compute. Internal to flash attention.

/// A matrix [T, D] in global memory. The stride is in bytes, so an address takes one multiply-add.
struct Rows {
  char* data;
  unsigned stride, T;

  __device__ Rows(const cuda::Rows<bfloat16>& x)
      : data(reinterpret_cast<char*>(x.data)),
        stride(static_cast<unsigned>(x.stride) * 2),
        T(static_cast<unsigned>(x.T)) {}
  __device__ char* row(unsigned t) const { return data + std::uint64_t{t} * stride; }
};

/// How a kernel divides its work. A block owns kRows rows of a head, 16 * kStrips for each warp,
/// and walks over other rows, kWalk at a time. A warp uses a right factor that it has loaded for
/// all its strips. With one strip, the loads from shared memory take longer than the products on
/// the tensor cores.
/// @tparam kStep_   walked rows whose scores are in registers at a time (backward)
/// @tparam kBlocks_ blocks for which the registers of a multiprocessor must be enough
template <unsigned kD_, unsigned kWarps_, unsigned kStrips_, unsigned kWalk_, unsigned kStep_,
          unsigned kBlocks_>
struct Plan {
  static constexpr unsigned kD = kD_, kWarps = kWarps_, kStrips = kStrips_, kWalk = kWalk_;
  static constexpr unsigned kStep = kStep_, kBlocks = kBlocks_;
  static constexpr unsigned kThreads = 32 * kWarps, kRows = 16 * kStrips * kWarps;
};

/// The grid of blocks for `rows` rows of each query head, or of each group of query heads: blockIdx
/// is {tile, head or group, sequence}.
template <class P>
dim3 grid_of(const Call& call, int rows, int group = 1) {
  return dim3(blocks_for(rows, P::kRows), call.H / group, call.heads / call.H);
}

/// Calls launch_for(P{}, std::bool_constant<kDropout>{}) for the plan of a call, and for whether it
/// drops weights.
template <class Plan64, class Plan128, class Launch>
void for_plan(const Call& call, const Launch& launch_for) {
  const auto with = [&]<class P>(P plan) {
    call.threshold == 0 ? launch_for(plan, std::false_type{}) : launch_for(plan, std::true_type{});
  };
  call.D == 64 ? with(Plan64{}) : with(Plan128{});
}

/// Rows of kD in shared memory, in pieces of 16 bytes. Piece p of row r lies at place p ^ (r % 8).
/// So the pieces p of eight rows, which are read together, are in different banks. A tile begins at
/// a multiple of 1024 bytes, so the bits of the address that give a piece's place contain nothing
/// else.
template <unsigned kD>
struct Tile {
  static constexpr unsigned kPieces = kD / 8;
  Shared begin;

  __host__ __device__ static constexpr unsigned bytes(unsigned rows) { return rows * kD * 2; }
  __device__ Tile after(unsigned rows) const { return {begin + bytes(rows)}; }
  /// Piece p ^ q of row `row` + r, where `row` is a multiple of 8.
  __device__ Shared piece(unsigned row, unsigned r, unsigned p, unsigned q = 0) const {
    return ((begin + bytes(r) + (p ^ r % 8) * 16) ^ q * 16) + bytes(row);
  }

  /// Loads 16 rows and 16 features as a left factor; as two right factors that have the rows as
  /// columns; and as two right factors that have the features as columns.
  __device__ void left(unsigned (&a)[4], unsigned row, unsigned d) const {
    load_matrices<false>(a, piece(row, lane() % 16, lane() / 16, d / 8));
  }
  __device__ void right_transposed(unsigned (&b)[4], unsigned row, unsigned d) const {
    load_matrices<false>(b, piece(row, lane() / 16 * 8 + lane() % 8, lane() / 8 % 2, d / 8));
  }
  __device__ void right(unsigned (&b)[4], unsigned row, unsigned d) const {
    load_matrices<true>(b, piece(row, lane() % 16, lane() / 16, d / 8));
  }
};

/// Begins to copy kRows rows from `first` on. Rows that do not exist become zeros.
template <class P, unsigned kRows>
__device__ void copy_rows(Tile<P::kD> to, const Rows& from, unsigned first) {
  constexpr unsigned kPieces = Tile<P::kD>::kPieces, kAtOnce = P::kThreads / kPieces;
  static_assert(kAtOnce % 8 == 0 && kRows % kAtOnce == 0);
  const unsigned r = threadIdx.x / kPieces, p = threadIdx.x % kPieces, t = first + r;
  const char* source = from.row(t) + 16 * p;
#pragma unroll
  for (unsigned row = 0; row < kRows; row += kAtOnce) {
    copy_later<16>(to.piece(row, r, p), source, t + row < from.T);
    source += kAtOnce * from.stride;
  }
}

/// Begins to copy a stage: kWalk rows of one matrix, and behind them the same rows of another.
template <class P>
__device__ void copy_stage(Tile<P::kD> to, const Rows& one, const Rows& other, unsigned first) {
  copy_rows<P, P::kWalk>(to, one, first);
  copy_rows<P, P::kWalk>(to.after(P::kWalk), other, first);
}

/// The own rows of a warp, as left factors that stay in registers.
template <class P>
struct Own {
  Tile<P::kD> tile;
  unsigned row;  ///< first row of the warp in the tile
  unsigned held[P::kStrips][P::kD / 16][4];

  __device__ void hold() {
#pragma unroll
    for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
      for (unsigned d = 0; d < P::kD; d += 16) tile.left(held[s][d / 16], row + 16 * s, d);
    }
  }
  __device__ void get(unsigned (&a)[4], unsigned s, unsigned d) const {
    for (int i = 0; i < 4; ++i) a[i] = held[s][d / 16][i];
  }
};

/// The sums of a warp: 16 * kStrips rows, kColumns columns.
template <class P, unsigned kColumns>
using Sums = float[P::kStrips][kColumns / 8][4];

/// sums += own rows times kColumns rows of `others` from row `from` on, transposed.
template <class P, unsigned kColumns>
__device__ void add_products(Sums<P, kColumns>& sums, const Own<P>& own, Tile<P::kD> others,
                             unsigned from = 0) {
#pragma unroll
  for (unsigned d = 0; d < P::kD; d += 16) {
    unsigned a[P::kStrips][4], b[4];
#pragma unroll
    for (unsigned s = 0; s < P::kStrips; ++s) own.get(a[s], s, d);
#pragma unroll
    for (unsigned n = 0; n < kColumns / 8; n += 2) {
      others.right_transposed(b, from + 8 * n, d);
#pragma unroll
      for (unsigned s = 0; s < P::kStrips; ++s) {
        multiply(sums[s][n], a[s], b[0], b[1]);
        multiply(sums[s][n + 1], a[s], b[2], b[3]);
      }
    }
  }
}

/// sums += weights, rounded, times kColumns rows of `others` from row `from` on.
template <class P, unsigned kColumns>
__device__ void add_weighted(Sums<P, P::kD>& sums, const Sums<P, kColumns>& weights,
                             Tile<P::kD> others, unsigned from = 0) {
#pragma unroll
  for (unsigned n = 0; n < kColumns / 8; n += 2) {
    unsigned a[P::kStrips][4], b[4];
#pragma unroll
    for (unsigned s = 0; s < P::kStrips; ++s)
      round_to_factor(a[s], weights[s][n], weights[s][n + 1]);
#pragma unroll
    for (unsigned d = 0; d < P::kD; d += 16) {
      others.right(b, from + 8 * n, d);
#pragma unroll
      for (unsigned s = 0; s < P::kStrips; ++s) {
        multiply(sums[s][d / 8], a[s], b[0], b[1]);
        multiply(sums[s][d / 8 + 1], a[s], b[2], b[3]);
      }
    }
  }
}

/// The row and the column of a lane's element e of sums [strip s][n], counted from its first
/// element.
__device__ constexpr unsigned row_in(unsigned s, unsigned e) { return 16 * s + e / 2 * 8; }
__device__ constexpr unsigned column_in(unsigned n, unsigned e) { return 8 * n + e % 2; }

/// Whether the column of an element is greater than its row, or smaller: `reach` is the row minus
/// the column of the lane's first element.
__device__ inline bool beyond(int reach, unsigned s, unsigned n, unsigned e) {
  return static_cast<int>(column_in(n, e)) - static_cast<int>(row_in(s, e)) > reach;
}
__device__ inline bool before(int reach, unsigned s, unsigned n, unsigned e) {
  return static_cast<int>(column_in(n, e)) - static_cast<int>(row_in(s, e)) < reach;
}

/// Writes factor(strip, half) * sums to the rows from `first` on, as far as they exist. The warp's
/// part of `tile`, its rows from `row` on, is used to put whole rows together, so that every lane
/// writes 16 bytes at a time.
template <class P, class Factor>
__device__ void write_rows(const Sums<P, P::kD>& sums, const Factor& factor, Tile<P::kD> tile,
                           unsigned row, const Rows& to, unsigned first) {
  constexpr unsigned kPieces = Tile<P::kD>::kPieces, kAtOnce = 32 / kPieces;
  __syncwarp();  // all lanes have read the rows
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned p = 0; p < kPieces; ++p) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const float x = factor(s, half), *pair = &sums[s][p][2 * half];
        store4(tile.piece(row + row_in(s, 2 * half), row_of_sums(), p) + 2 * column_of_sums(),
               pack(x * pair[0], x * pair[1]));
      }
    }
  }
  __syncwarp();
#pragma unroll
  for (unsigned i = 0; i < 16 * P::kStrips; i += kAtOnce) {
    const unsigned r = i + lane() / kPieces, p = lane() % kPieces;
    if (first + r >= to.T) continue;
    *reinterpret_cast<float4*>(to.row(first + r) + 16 * p) = load16(tile.piece(row, r, p));
  }
}

}  // namespace nanofsdp::ops::cuda::flash
