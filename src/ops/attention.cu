#include <cmath>
#include <string>

#include "base/check.h"
#include "ops/attention.cuh"

// The plain kernels, which multiply in float32, and the choice of the kernels for a call. They read
// and write float32 or bfloat16.

namespace nanofsdp::ops {
using namespace cuda;
namespace {

constexpr int kMaxWidth = 2 * kTile;  // the widest head: two slices
struct Deltas : Scratch {};

template <int kSlices, class T>
__global__ void __launch_bounds__(kThreads, 2)
    attend(Call call, Columns<T> queries, Columns<T> keys, Columns<T> values, Columns<T> y,
           float* lse) {
  __shared__ Tiles tiles;
  const Head head(call, own_head(call));
  const int row = (static_cast<int>(call.tiles) - 1 - own_tile(call)) * kTile;
  const int first = call.first + row;
  const Rows<T> q = head.of(queries), k = head.of(keys), v = head.of(values);
  Output<kSlices> out = {};
  Softmax softmax = {};
  for (float& x : softmax.largest) x = -INFINITY;
  for (int walked = 0; walked < first + kTile; walked += kTile) {
    //! [tile]
    Scores scores = {};
    add_products<kSlices>(tiles, q, first, k, walked, scores);
    float correction[kEach];
    weigh(head, first, walked, softmax, scores, correction);
    for (int slice = 0; slice < kSlices; ++slice) {
      for (int i = 0; i < kEach; ++i) {
        for (float& x : out[slice][i]) x *= correction[i];
      }
    }
    add_weighted<kSlices>(tiles, scores, v, walked, out);
    //! [tile]
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

template <int kSlices, class T>
__global__ void __launch_bounds__(kThreads, 2)
    differentiate_queries(Call call, Given<T> given, Columns<T> dq_columns) {
  __shared__ Tiles tiles;
  __shared__ Queries queries;
  const Head head(call, own_head(call));
  const int first = (static_cast<int>(call.tiles) - 1 - own_tile(call)) * kTile;
  const Rows<T> q = head.of(given.q), k = head.of(given.k), v = head.of(given.v);
  const Rows<T> dout = head.of(given.dy);
  stage(head, given, first, queries);
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

// The tiles are transposed here: the block's own rows are keys, and the rows that it walks over are
// queries. It adds the contributions of the group's query heads in their order. With two slices of
// dK and of dV, only one block fits on a multiprocessor.
template <int kSlices, class T>
__global__ void __launch_bounds__(kThreads, 3 - kSlices)
    differentiate_keys(Call call, Given<T> given, Columns<T> dk_columns, Columns<T> dv_columns) {
  __shared__ Tiles tiles;
  __shared__ Queries queries;
  const int begin = own_head(call) * call.group;
  const int first = own_tile(call) * kTile;
  Output<kSlices> dk = {}, dv = {};
  for (int number = begin; number < begin + call.group; ++number) {
    const Head head(call, number);
    const Rows<T> q = head.of(given.q), k = head.of(given.k), v = head.of(given.v);
    const Rows<T> dout = head.of(given.dy);
    for (int walked = first; walked < call.T; walked += kTile) {
      stage(head, given, walked, queries);  // all threads have read the last queries
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

// delta[t] = dO . O of each query. One warp computes one query.
template <class T>
__global__ void make_deltas(Call call, Given<T> given) {
  const std::int64_t row = global_thread() / kWarp;
  const auto number = static_cast<int>(row / call.T), t = static_cast<int>(row % call.T);
  if (number >= static_cast<int>(call.heads)) return;
  const Head head(call, number);
  const T *dout = head.of(given.dy).row(t), *out = head.of(given.y).row(t);
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x % kWarp); d < call.D; d += kWarp) {
    sum += widen(dout[d]) * widen(out[d]);
  }
  sum = over_warp(sum, Sum{});
  if (threadIdx.x % kWarp == 0) given.delta[row] = sum;
}

template <class Operands>
Call call_of(const Operands& a) {
  const int T = static_cast<int>(a.q.rows.dim(1)), H = a.q.heads;
  const int D = static_cast<int>(a.y.dim(2)) / H;
  NANOFSDP_CHECK_SHAPE(D <= kMaxWidth, .what = "attention: heads",
                       .expected = "heads of at most " + std::to_string(kMaxWidth) + " features",
                       .got = std::to_string(D), .hint = "more heads, or --device=cpu");
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  return {.T = T,
          .H = H,
          .D = D,
          .group = H / a.k.heads,
          .heads = static_cast<unsigned>(a.y.dim(0) * H),
          .tiles = blocks_for(T, kTile),
          .scale = scale,
          .scale_of_2 = scale * kLog2E,
          .key = a.key,
          .threshold = drop_threshold(a.dropout),
          .survivor = 1 / (1 - a.dropout)};
}

template <class T>
void forward(Stream& stream, const AttentionForward& a) {
  Call call = call_of(a);
  call.first = static_cast<int>(a.first);
  const Columns<T> q = columns_of<T>(a.q), k = columns_of<T>(a.k), v = columns_of<T>(a.v);
  const Columns<T> y = columns_of<T>({a.y, 0, call.H});
  if constexpr (dtype_of<T> == DType::bfloat16) {
    if (flash::fits(call, {q, k, v, y})) {
      return flash::attend(stream, call, q, k, v, y, a.lse.f32());
    }
  }
  call.tiles = blocks_for(call.T - call.first, kTile);
  launch(stream, call.tiles * call.heads, kThreads, call.D <= kTile ? attend<1, T> : attend<2, T>,
         call, q, k, v, y, a.lse.f32());
}

template <class T>
void backward(Stream& stream, const AttentionBackward& a) {
  Call call = call_of(a);
  const bool one_slice = call.D <= kTile;
  const std::int64_t rows = std::int64_t{call.heads} * call.T;
  float* const delta = scratch<Deltas, float>(stream, rows * sizeof(flash::Known) / sizeof(float));
  const Columns<T> dy = columns_of<T>({a.dy, 0, call.H}), y = columns_of<T>({a.y, 0, call.H});
  const Columns<T> q = columns_of<T>(a.q), k = columns_of<T>(a.k), v = columns_of<T>(a.v);
  const Given<T> given{dy, q, k, v, y, a.lse.f32(), delta};
  const Columns<T> dq = columns_of<T>(a.dq), dk = columns_of<T>(a.dk), dv = columns_of<T>(a.dv);
  if constexpr (dtype_of<T> == DType::bfloat16) {
    if (flash::fits(call, {dy, q, k, v, y, dq, dk, dv})) {
      flash::differentiate_queries(stream, call, given, dq);
      return flash::differentiate_keys(stream, call, given, dk, dv);
    }
  }
  launch(stream, blocks_for(rows, kThreads / kWarp), kThreads, make_deltas<T>, call, given);
  launch(stream, call.tiles * call.heads, kThreads,
         one_slice ? differentiate_queries<1, T> : differentiate_queries<2, T>, call, given, dq);
  call.heads /= call.group;  // blocks own heads of keys and values
  launch(stream, call.tiles * call.heads, kThreads,
         one_slice ? differentiate_keys<1, T> : differentiate_keys<2, T>, call, given, dk, dv);
}

}  // namespace

void run_on_gpu(Stream& stream, const AttentionForward& a) {
  for_type_of(a.y, [&]<class T>(T) { forward<T>(stream, a); });
}

void run_on_gpu(Stream& stream, const AttentionBackward& a) {
  for_type_of(a.y, [&]<class T>(T) { backward<T>(stream, a); });
}

}  // namespace nanofsdp::ops
