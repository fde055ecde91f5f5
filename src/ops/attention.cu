#include "ops/attention.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "ops/tile.cuh"

// All three kernels are one scheme. A block owns 64 rows of a head, queries or keys, and walks over
// the others, 64 at a time (a block of keys: over those of each query head that reads them): the
// products of its rows with those are a tile of scores, which never leaves the block; the tile
// times rows of a third matrix adds to what the block will write. Forward keeps the largest score
// and the sum of each query so far, and corrects what it has when they change (Milakov and
// Gimelshein 2018, arXiv 1805.02867; Dao et al. 2022, arXiv 2205.14135). Backward knows the sums:
// one kernel owns queries and writes dQ, one owns keys and writes dK and dV; nobody adds to what
// another block writes. Most work first: blocks start in order.

namespace nanofsdp::ops::cuda {
namespace {

constexpr int kMaxWidth = 2 * kTile;  // of a head: two slices

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

// The head among those that blocks own that this block works on.
__device__ int own_head(const Call& call) { return static_cast<int>(blockIdx.x % call.heads); }

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

  // Its [n] of lse, whose first element is query number call.first.
  __device__ float* row_of(float* lse) const {
    return lse + static_cast<std::int64_t>(number) * (call.T - call.first);
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

// One tile on: scores become dropout(P) but for the final sum, and `out` is what it would be had
// the largest score been known from the start.
template <int kSlices>
__device__ void weigh(const Head& head, int first, int walked, Softmax& softmax, Scores& scores,
                      Output<kSlices>& out) {
  for (int i = 0; i < kEach; ++i) {
    const int query = first + own(i);
    float largest = softmax.largest[i];
    for (int j = 0; j < kEach; ++j) {
      float& score = scores[i][j];
      score = walked + other(j) <= query ? head.call.scale * score : -INFINITY;
      largest = Max{}(largest, score);
    }
    largest = over_warp(largest, Max{}, kSide);
    const float correction = expf(softmax.largest[i] - largest);
    softmax.largest[i] = largest;
    softmax.sum[i] *= correction;
    for (int slice = 0; slice < kSlices; ++slice) {
      for (float& x : out[slice][i]) x *= correction;
    }
    for (int j = 0; j < kEach; ++j) {
      const float weight = expf(scores[i][j] - largest);
      softmax.sum[i] += weight;
      scores[i][j] = weight * head.kept(query, walked + other(j));
    }
  }
}

template <int kSlices>
__global__ void __launch_bounds__(kThreads, 2)
    attend(Call call, Columns queries, Columns keys, Columns values, Columns y, float* lse) {
  __shared__ Tiles tiles;
  const Head head(call, own_head(call));
  const int row = static_cast<int>(call.tiles - 1 - blockIdx.x / call.heads) * kTile;
  const int first = call.first + row;
  const Rows q = head.of(queries), k = head.of(keys), v = head.of(values);
  Output<kSlices> out = {};
  Softmax softmax = {};
  for (float& x : softmax.largest) x = -INFINITY;
  for (int walked = 0; walked < first + kTile; walked += kTile) {
    Scores scores = {};
    add_products<kSlices>(tiles, q, first, k, walked, scores);
    weigh<kSlices>(head, first, walked, softmax, scores, out);
    add_weighted<kSlices>(tiles, scores, v, walked, out);
  }
  for (int i = 0; i < kEach; ++i) {
    const int query = first + own(i);
    const float sum = over_warp(softmax.sum[i], Sum{}, kSide);
    if (other(0) == 0 && query < call.T) {
      head.row_of(lse)[row + own(i)] = softmax.largest[i] + logf(sum);
    }
    for (int slice = 0; slice < kSlices; ++slice) {
      for (float& x : out[slice][i]) x *= 1 / sum;
    }
  }
  write<kSlices>(out, head.of(y), row);
}

// What both kernels of backward read.
struct Given {
  Columns dy, q, k, v, y;
  float* lse;
};

// What backward wants to know of 64 queries.
struct Queries {
  float lse[kTile], delta[kTile];
};

// Four threads each make dO . O. Beyond the last query lse is infinite: every weight is 0.
__device__ void stage(const Rows& dy, const Rows& y, const float* lse, int first, Queries& to) {
  const int r = static_cast<int>(threadIdx.x) / 4, t = first + r;
  float delta = 0;
  for (int d = static_cast<int>(threadIdx.x) % 4; t < y.T && d < y.D; d += 4) {
    delta += dy.row(t)[d] * y.row(t)[d];
  }
  delta = over_warp(delta, Sum{}, 4);
  if (threadIdx.x % 4 != 0) return;
  to.delta[r] = delta;
  to.lse[r] = t < y.T ? lse[t] : INFINITY;
}

// Of query i, the r-th staged, and key j: a score becomes dropout(P), the product of dO and V
// becomes dS / sqrt(D).
__device__ void differentiate(const Head& head, const Queries& queries, int r, int i, int j,
                              float& score, float& product) {
  const float kept = head.kept(i, j);
  const float p = j <= i ? expf(head.call.scale * score - queries.lse[r]) : 0.0f;
  product = j <= i ? p * (kept * product - queries.delta[r]) * head.call.scale : 0.0f;
  score = p * kept;
}

template <int kSlices>
__global__ void __launch_bounds__(kThreads, 2)
    differentiate_queries(Call call, Given given, Columns dq_columns) {
  __shared__ Tiles tiles;
  __shared__ Queries queries;
  const Head head(call, own_head(call));
  const int first = static_cast<int>(call.tiles - 1 - blockIdx.x / call.heads) * kTile;
  const Rows q = head.of(given.q), k = head.of(given.k), v = head.of(given.v);
  const Rows dout = head.of(given.dy);
  stage(dout, head.of(given.y), head.row_of(given.lse), first, queries);
  Output<kSlices> dq = {};
  for (int walked = 0; walked <= first; walked += kTile) {
    Scores p = {}, ds = {};
    add_products<kSlices>(tiles, q, first, k, walked, p);
    add_products<kSlices>(tiles, dout, first, v, walked, ds);
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        differentiate(head, queries, own(i), first + own(i), walked + other(j), p[i][j], ds[i][j]);
      }
    }
    add_weighted<kSlices>(tiles, ds, k, walked, dq);
  }
  write<kSlices>(dq, head.of(dq_columns), first);
}

// Its tiles are transposed: the block's own rows are keys, the others queries. It adds what the
// group's query heads give, in their order. With two slices of dK and of dV only one such block
// fits on a multiprocessor.
template <int kSlices>
__global__ void __launch_bounds__(kThreads, 3 - kSlices)
    differentiate_keys(Call call, Given given, Columns dk_columns, Columns dv_columns) {
  __shared__ Tiles tiles;
  __shared__ Queries queries;
  const int begin = own_head(call) * call.group;
  const int first = static_cast<int>(blockIdx.x / call.heads) * kTile;
  Output<kSlices> dk = {}, dv = {};
  for (int number = begin; number < begin + call.group; ++number) {
    const Head head(call, number);
    const Rows q = head.of(given.q), k = head.of(given.k), v = head.of(given.v);
    const Rows dout = head.of(given.dy), out = head.of(given.y);
    for (int walked = first; walked < call.T; walked += kTile) {
      stage(dout, out, head.row_of(given.lse), walked, queries);  // all have read the last ones
      Scores p = {}, ds = {};
      add_products<kSlices>(tiles, k, first, q, walked, p);
      add_products<kSlices>(tiles, v, first, dout, walked, ds);
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) {
          differentiate(head, queries, other(j), walked + other(j), first + own(i), p[i][j],
                        ds[i][j]);
        }
      }
      add_weighted<kSlices>(tiles, p, dout, walked, dv);
      add_weighted<kSlices>(tiles, ds, q, walked, dk);
    }
  }
  const Head head(call, begin);
  write<kSlices>(dk, head.of(dk_columns), first);
  write<kSlices>(dv, head.of(dv_columns), first);
}

Columns columns_of(const Heads& x) {
  return {.data = x.rows.f32() + x.first,
          .stride = static_cast<int>(x.rows.dim(2)),
          .rows = static_cast<int>(x.rows.dim(1)),
          .heads = x.heads};
}

template <class Operands>
Call call_of(const Operands& a) {
  const int T = static_cast<int>(a.q.rows.dim(1)), H = a.q.heads;
  const int D = static_cast<int>(a.y.dim(2)) / H;
  NANOFSDP_CHECK_SHAPE(D <= kMaxWidth, .what = "attention: heads",
                       .expected = "heads of at most " + std::to_string(kMaxWidth) + " features",
                       .got = std::to_string(D), .hint = "more heads, or --device=cpu");
  return {.T = T,
          .H = H,
          .D = D,
          .group = H / a.k.heads,
          .heads = static_cast<unsigned>(a.y.dim(0) * H),
          .tiles = blocks_for(T, kTile),
          .scale = 1 / std::sqrt(static_cast<float>(D)),
          .key = a.key,
          .threshold = drop_threshold(a.dropout),
          .survivor = 1 / (1 - a.dropout)};
}

}  // namespace

void attention(Stream& stream, const AttentionForward& a) {
  Call call = call_of(a);
  call.first = static_cast<int>(a.first);
  call.tiles = blocks_for(call.T - call.first, kTile);
  launch(stream, call.tiles * call.heads, kThreads, call.D <= kTile ? attend<1> : attend<2>, call,
         columns_of(a.q), columns_of(a.k), columns_of(a.v), columns_of({a.y, 0, call.H}),
         a.lse.f32());
}

void attention(Stream& stream, const AttentionBackward& a) {
  Call call = call_of(a);
  const bool one_slice = call.D <= kTile;
  const Given given{
      columns_of({a.dy, 0, call.H}), columns_of(a.q), columns_of(a.k), columns_of(a.v),
      columns_of({a.y, 0, call.H}),  a.lse.f32()};
  launch(stream, call.tiles * call.heads, kThreads,
         one_slice ? differentiate_queries<1> : differentiate_queries<2>, call, given,
         columns_of(a.dq));
  call.heads /= call.group;  // blocks own heads of keys and values
  launch(stream, call.tiles * call.heads, kThreads,
         one_slice ? differentiate_keys<1> : differentiate_keys<2>, call, given, columns_of(a.dk),
         columns_of(a.dv));
}

}  // namespace nanofsdp::ops::cuda
