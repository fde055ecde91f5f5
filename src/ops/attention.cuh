#pragma once

#include <cmath>
#include <cstdint>

#include "ops/attention.h"
#include "ops/kernels.cuh"
#include "ops/tile.cuh"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief What the kernels of attention share, in float32 and on tensor cores. Internal to
/// attention.
///
/// All are one scheme. A block owns 64 rows of a head, queries or keys, and walks over the others,
/// 64 at a time (a block of keys: over those of each query head that reads them): the products of
/// its rows with those are a tile of scores, which never leaves the block; the tile times rows of a
/// third matrix adds to what the block will write. Forward keeps the largest score and the sum of
/// each query so far, and corrects what it has when they change (Milakov and Gimelshein 2018, arXiv
/// 1805.02867; Dao et al. 2022, arXiv 2205.14135). Backward knows the sums: one kernel owns queries
/// and writes dQ, one owns keys and writes dK and dV; nobody adds to what another block writes. Of
/// a head, the tile with the most work comes first: blocks start in order.

// The rows of Heads: `stride` apart, `rows` of them a sequence.
struct Columns {
  float* data;
  int stride, rows, heads;
};

struct Call {
  int T, H, D;
  int group;              // query heads that read one key/value head
  int first;              // queries before it do not ask: forward alone knows that
  unsigned heads, tiles;  // heads, of all sequences, that blocks own; tiles of 64 rows
  float scale;
  DropoutKey key;
  std::uint32_t threshold;
  float survivor;
};

// The head among those that blocks own that this block works on, and which of its tiles. Blocks of
// one head run at about the same time, so they find the rows that they share in the cache.
__device__ inline int own_head(const Call& call) {
  return static_cast<int>(blockIdx.x / call.tiles);
}
__device__ inline int own_tile(const Call& call) {
  return static_cast<int>(blockIdx.x % call.tiles);
}

// A query head.
struct Head {
  const Call& call;
  int number, b, h;   // of all; of its sequence; in its sequence
  std::uint64_t key;  // the sequence's

  __device__ Head(const Call& c, int number)
      : call(c), number(number), b(number / c.H), h(number % c.H), key(row_key(c.key, b)) {}

  // Its rows of D in x, or those that it shares with the others of its group.
  __device__ Rows of(const Columns& x) const {
    float* sequence = x.data + static_cast<std::int64_t>(b) * x.rows * x.stride;
    return {sequence + h / (call.H / x.heads) * call.D, x.stride, x.rows, call.D};
  }

  // Its [n] of lse or delta, whose first element is query number call.first.
  __device__ float* row_of(float* sums) const {
    return sums + static_cast<std::int64_t>(number) * (call.T - call.first);
  }

  // What dropout makes of a weight of 1.
  __device__ float kept(unsigned query, unsigned key_position) const {
    if (call.threshold == 0) return 1;
    const unsigned T = call.T;
    return keep(key, (h * T + query) * T + key_position, call.threshold) ? call.survivor : 0.0f;
  }
};

// Of each of a thread's queries: the largest score so far, and the sum of exp(score - largest) over
// the thread's own columns.
struct Softmax {
  float largest[kEach], sum[kEach];
};

// One tile on: scores become dropout(P) but for the final sum. What was made of the tiles before
// has to be multiplied by `correction`, to be what it would be had the largest score been known
// from the start.
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

// What both kernels of backward read.
struct Given {
  Columns dy, q, k, v;
  float *lse, *delta;
};

// What backward wants to know of 64 queries.
struct Queries {
  float lse[kTile], delta[kTile];
};

// Beyond the last query lse is infinite: every weight is 0.
__device__ inline void stage(const Head& head, const Given& given, int first, Queries& to) {
  const int r = static_cast<int>(threadIdx.x), t = first + r;
  if (r >= kTile) return;
  to.lse[r] = t < head.call.T ? head.row_of(given.lse)[t] : INFINITY;
  to.delta[r] = t < head.call.T ? head.row_of(given.delta)[t] : 0.0f;
}

// Of query i, the r-th staged, and key j: a score becomes dropout(P), the product of dO and V
// becomes dS / sqrt(D).
__device__ inline void differentiate(const Head& head, const Queries& queries, int r, int i, int j,
                                     float& score, float& product) {
  const float kept = head.kept(i, j);
  const float p = j <= i ? expf(head.call.scale * score - queries.lse[r]) : 0.0f;
  product = j <= i ? p * (kept * product - queries.delta[r]) * head.call.scale : 0.0f;
  score = p * kept;
}

// The same on tensor cores, which multiply bfloat16. Whether they can: heads of 64 features that
// begin at multiples of 16 bytes.
bool fits_tensor_cores(const Call& call, std::initializer_list<Columns> all);
void attend_on_tensor_cores(Stream& stream, const Call& call, const Columns& q, const Columns& k,
                            const Columns& v, const Columns& y, float* lse);
void differentiate_on_tensor_cores(Stream& stream, Call call, const Given& given, const Columns& dq,
                                   const Columns& dk, const Columns& dv);

}  // namespace nanofsdp::ops::cuda
