#include "ops/attention.cuh"
#include "ops/tensor_tile.cuh"

// The kernels whose factors are rounded to bfloat16, which tensor cores multiply. Their sums,
// scores and exponentials are float32.

namespace nanofsdp::ops::cuda {
namespace {

// Scores on their way from the warps that made them to the threads that own their rows; then
// factors made of them.
union Between {
  float scores[kTile][kTile + 4];
  NarrowTile factors;
};

__global__ void __launch_bounds__(kThreads, 2)
    attend(Call call, Columns queries, Columns keys, Columns values, Columns y_columns,
           float* lse) {
  __shared__ NarrowTile of_q, of_k, of_v;
  __shared__ Between between;
  __shared__ float factor[kTile];  // of each row of y
  const Head head(call, own_head(call));
  const int row = (static_cast<int>(call.tiles) - 1 - own_tile(call)) * kTile;
  const int first = call.first + row;
  const Rows k = head.of(keys), v = head.of(values);
  const Places places;
  put(fetch(head.of(queries), first), of_q);
  Sums y;
  Softmax softmax = {};
  for (float& x : softmax.largest) x = -INFINITY;
  for (int walked = 0; walked < first + kTile; walked += kTile) {
    stage(k, v, walked, of_k, of_v);
    Sums products;
    products.add_product<wmma::col_major>(of_q, of_k);
    products.store(between.scores);
    __syncthreads();
    Scores scores;
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) scores[i][j] = between.scores[own(i)][other(j)];
    }
    float correction[kEach];
    weigh(head, first, walked, softmax, scores, correction);
    __syncthreads();  // the scores have been read
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        between.factors.rows[own(i)][other(j)] = __float2bfloat16_rn(scores[i][j]);
      }
      if (other(0) == 0) factor[own(i)] = correction[i];
    }
    __syncthreads();
    y.each(places, [&](int r, int, float& sum) { sum *= factor[r]; });
    y.add_product<wmma::row_major>(between.factors, of_v);
  }
  __syncthreads();  // the last factors have been read
  for (int i = 0; i < kEach; ++i) {
    const float sum = over_warp(softmax.sum[i], Sum{}, kSide);
    if (other(0) != 0) continue;
    factor[own(i)] = 1 / sum;
    if (first + own(i) < call.T) {
      head.row_of(lse)[row + own(i)] = softmax.largest[i] + logf(sum);
    }
  }
  __syncthreads();
  y.each(places, [&](int r, int, float& sum) { sum *= factor[r]; });
  write(places, y, head.of(y_columns), row);
}

__global__ void __launch_bounds__(kThreads, 2)
    differentiate_queries(Call call, Given given, Columns dq_columns) {
  __shared__ NarrowTile of_q, of_dy, of_k, of_v, factors;
  __shared__ Queries queries;
  const Head head(call, own_head(call));
  const int first = (static_cast<int>(call.tiles) - 1 - own_tile(call)) * kTile;
  const Rows k = head.of(given.k), v = head.of(given.v);
  const Places places;
  put(fetch(head.of(given.q), first), of_q);
  put(fetch(head.of(given.dy), first), of_dy);
  stage(head, given, first, queries);
  Sums dq;
  for (int walked = 0; walked <= first; walked += kTile) {
    stage(k, v, walked, of_k, of_v);
    Sums p, ds;
    p.add_product<wmma::col_major>(of_q, of_k);
    ds.add_product<wmma::col_major>(of_dy, of_v);
    p.each(
        places,
        [&](int i, int j, float& score, float& product) {
          differentiate(head, queries, i, first + i, walked + j, score, product);
        },
        ds);
    make_factors(places, ds, factors);
    dq.add_product<wmma::row_major>(factors, of_k);
  }
  write(places, dq, head.of(dq_columns), first);
}

// Its tiles are transposed: the block's own rows are keys, the others queries. It adds what the
// group's query heads give, in their order.
__global__ void __launch_bounds__(kThreads, 2)
    differentiate_keys(Call call, Given given, Columns dk_columns, Columns dv_columns) {
  __shared__ NarrowTile of_k, of_v, of_q, of_dy, factors;
  __shared__ Queries queries;
  const int begin = own_head(call) * call.group, first = own_tile(call) * kTile;
  const Head one(call, begin);
  const Places places;
  put(fetch(one.of(given.k), first), of_k);
  put(fetch(one.of(given.v), first), of_v);
  Sums dk, dv;
  for (int number = begin; number < begin + call.group; ++number) {
    const Head head(call, number);
    const Rows q = head.of(given.q), dy = head.of(given.dy);
    for (int walked = first; walked < call.T; walked += kTile) {
      stage(head, given, walked, queries);
      stage(q, dy, walked, of_q, of_dy);
      Sums p, ds;
      p.add_product<wmma::col_major>(of_k, of_q);
      ds.add_product<wmma::col_major>(of_v, of_dy);
      p.each(
          places,
          [&](int i, int j, float& score, float& product) {
            differentiate(head, queries, j, walked + j, first + i, score, product);
          },
          ds);
      make_factors(places, p, factors);
      dv.add_product<wmma::row_major>(factors, of_dy);
      make_factors(places, ds, factors);
      dk.add_product<wmma::row_major>(factors, of_q);
    }
  }
  write(places, dk, one.of(dk_columns), first);
  write(places, dv, one.of(dv_columns), first);
}

}  // namespace

bool fits_tensor_cores(const Call& call, std::initializer_list<Columns> all) {
  bool fits = call.D == kTile;
  for (const Columns& x : all) {
    fits =
        fits && reinterpret_cast<std::uintptr_t>(x.data) % sizeof(float4) == 0 && x.stride % 4 == 0;
  }
  return fits;
}

void attend_on_tensor_cores(Stream& stream, const Call& call, const Columns& q, const Columns& k,
                            const Columns& v, const Columns& y, float* lse) {
  launch(stream, call.tiles * call.heads, kThreads, attend, call, q, k, v, y, lse);
}

void differentiate_on_tensor_cores(Stream& stream, Call call, const Given& given, const Columns& dq,
                                   const Columns& dk, const Columns& dv) {
  launch(stream, call.tiles * call.heads, kThreads, differentiate_queries, call, given, dq);
  call.heads /= call.group;  // blocks own heads of keys and values
  launch(stream, call.tiles * call.heads, kThreads, differentiate_keys, call, given, dk, dv);
}

}  // namespace nanofsdp::ops::cuda
