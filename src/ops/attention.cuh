#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "ops/attention.h"
#include "ops/kernels.cuh"
#include "ops/tile.cuh"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief The types and functions that the kernels of attention share, the plain ones and those of
/// flash/. Internal to attention.
///
/// All kernels work in the same way. A block owns rows of a head, queries or keys. It walks over
/// the other rows, 64 at a time; a block that owns keys walks over the queries of every query head
/// that reads them. The products of its own rows with those rows are a tile of scores, which never
/// leaves the block. The tile times rows of a third matrix is added to the block's result.
///
/// Forward keeps the largest score and the sum of each query so far, and corrects the result so far
/// when they change (Milakov and Gimelshein 2018, arXiv 1805.02867; Dao et al. 2022, arXiv
/// 2205.14135). Backward knows the sums. One kernel owns queries and writes dQ; another owns keys
/// and writes dK and dV. No block adds to the result of another block. Within a head, the tile with
/// the most work comes first, because blocks start in order.

// The rows of Heads: `stride` elements apart, `rows` of them in each sequence.
template <class T>
struct Columns {
  T* data;
  int stride, rows, heads;
};

template <class T>
Columns<T> columns_of(const Heads& x) {
  return {.data = x.rows.data<T>() + x.first,
          .stride = static_cast<int>(x.rows.dim(2)),
          .rows = static_cast<int>(x.rows.dim(1)),
          .heads = x.heads};
}

constexpr float kLog2E = 1.4426950408889634f;

struct Call {
  int T, H, D;
  int group;                // query heads that read the same key/value head
  int first;                // queries before it have no result; only forward has such queries
  unsigned heads, tiles;    // heads of all sequences that blocks own; tiles of their rows
  float scale, scale_of_2;  // factors of scores in exponents of e, and of 2
  DropoutKey key;
  std::uint32_t threshold;
  float survivor;
};

// The head and the tile on which this block works. Blocks of one head run at about the same time,
// so they find the rows that they share in the cache.
__device__ inline int own_head(const Call& call) { return blockIdx.x / call.tiles; }
__device__ inline int own_tile(const Call& call) { return blockIdx.x % call.tiles; }

// A query head.
struct Head {
  const Call& call;
  int number, b, h;   // in all sequences; its sequence; in that sequence
  std::uint64_t key;  // the dropout key of the sequence

  __device__ Head(const Call& c, int number) : Head(c, number / c.H, number % c.H) {}
  __device__ Head(const Call& c, int b, int h)
      : call(c), number(b * c.H + h), b(b), h(h), key(row_key(c.key, b)) {}

  // Its rows of D elements in x, which it may share with other heads of its group.
  template <class T>
  __device__ Rows<T> of(const Columns<T>& x) const {
    return of(x, h / (call.H / x.heads));
  }
  // The rows of D elements that head n of its sequence has in x.
  template <class T>
  __device__ Rows<T> of(const Columns<T>& x, int n) const {
    return {x.data + std::int64_t{b} * x.rows * x.stride + n * call.D, x.stride, x.rows, call.D};
  }

  // Its [n] of lse or of delta. The first element belongs to query number call.first.
  __device__ float* row_of(float* sums) const {
    return sums + static_cast<std::int64_t>(number) * (call.T - call.first);
  }

  // The value that dropout gives to a weight of 1.
  __device__ float kept(unsigned query, unsigned key_position) const {
    if (call.threshold == 0) return 1;
    const unsigned T = call.T;
    return keep(key, (h * T + query) * T + key_position, call.threshold) ? call.survivor : 0.0f;
  }
};

// For each query of a thread: the largest score so far, and the sum of exp(score - largest) over
// the thread's own columns.
struct Softmax {
  float largest[kEach], sum[kEach];
};

// Turns the scores of one tile into dropout(P), except for the division by the final sum. The
// results of earlier tiles used an earlier largest score, so they must be multiplied by
// `correction`.
__device__ inline void weigh(const Head& head, int first, int walked, Softmax& softmax,
                             Scores& scores, float (&correction)[kEach]) {
  for (int i = 0; i < kEach; ++i) {
    const int query = first + own(i);
    float largest = softmax.largest[i];
    for (int j = 0; j < kEach; ++j) {
      float& score = scores[i][j];
      score = walked + other(j) <= query ? head.call.scale * score : -INFINITY;
      largest = Max{}(largest, score);
    }
    largest = over_warp(largest, Max{}, kSide);
    correction[i] = expf(softmax.largest[i] - largest);
    softmax.largest[i] = largest;
    softmax.sum[i] *= correction[i];
    for (int j = 0; j < kEach; ++j) {
      const float weight = expf(scores[i][j] - largest);
      softmax.sum[i] += weight;
      scores[i][j] = weight * head.kept(query, walked + other(j));
    }
  }
}

// The operands of backward's kernels. The first kernel writes `delta`, a float for each query, and
// the others read it. Flash attention uses flash::Known instead.
template <class T>
struct Given {
  Columns<T> dy, q, k, v, y;
  float *lse, *delta;
};

// The numbers that backward needs of 64 queries.
struct Queries {
  float lse[kTile], delta[kTile];
};

// Loads these numbers. Beyond the last query lse is infinite, so every weight is 0.
template <class T>
__device__ void stage(const Head& head, const Given<T>& given, int first, Queries& to) {
  const int r = static_cast<int>(threadIdx.x), t = first + r;
  if (r >= kTile) return;
  to.lse[r] = t < head.call.T ? head.row_of(given.lse)[t] : INFINITY;
  to.delta[r] = t < head.call.T ? head.row_of(given.delta)[t] : 0.0f;
}

// For query i, the r-th of the staged queries, and key j: replaces the score by dropout(P), and the
// product of dO and V by dS / sqrt(D).
__device__ inline void differentiate(const Head& head, const Queries& queries, int r, int i, int j,
                                     float& score, float& product) {
  const float kept = head.kept(i, j);
  const float p = j <= i ? expf(head.call.scale * score - queries.lse[r]) : 0.0f;
  product = j <= i ? p * (kept * product - queries.delta[r]) * head.call.scale : 0.0f;
  score = p * kept;
}

// The kernels of flash/, for heads of 64 or 128 features.
namespace flash {

using Narrow = Columns<bfloat16>;

// The numbers that the kernel of the keys needs of a query: log2 of the sum of its weights, and
// delta.
struct alignas(8) Known {
  float sum, delta;
};

// Whether these kernels can read and write the rows, 16 bytes at a time.
bool fits(const Call& call, std::initializer_list<Narrow> all);
void attend(Stream& stream, Call call, const Narrow& q, const Narrow& k, const Narrow& v,
            const Narrow& y, float* lse);
// Writes dq, and `known` of each query.
void differentiate_queries(Stream& stream, Call call, const Given<bfloat16>& given,
                           const Narrow& dq);
// Writes dk and dv.
void differentiate_keys(Stream& stream, Call call, const Given<bfloat16>& given, const Narrow& dk,
                        const Narrow& dv);

}  // namespace flash

}  // namespace nanofsdp::ops::cuda
