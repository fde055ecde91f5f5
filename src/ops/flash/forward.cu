#include "ops/flash/tile.cuh"

// Attention, forward, in bfloat16 on tensor cores.
//
// A block owns rows of queries and walks over the keys up to its last query. Scores stay in the
// registers of the warp that made them, and their exponentials are there the left factor of the
// product with the values. The block copies the next keys and values while it works on these.
// Exponentials are powers of 2, with log2(e) in the scale. Keys come in ascending order, so the
// largest score of a query is finite from the first keys on. Rows after T are zeros and give zeros.

namespace nanofsdp::ops::cuda::flash {
namespace {

//                     D warps strips walk step blocks
using Plan64 = Plan<64, 4, 1, 64, 64, 3>;
using Plan128 = Plan<128, 4, 1, 64, 64, 2>;

// Shared memory for the rows of the queries, and twice for those of keys and values.
template <class P>
constexpr unsigned shared_bytes() {
  return Tile<P::kD>::bytes(P::kRows + 4 * P::kWalk);
}

// The largest score of each row so far, and the sum of this lane's weights. The two halves are rows
// g and g + 8 of a strip.
template <class P>
struct Softmax {
  float largest[P::kStrips][2], sum[P::kStrips][2];
};

// Hides the keys after each query. `reach` is the row minus the column of the lane's first score.
template <class P>
__device__ void mask(Sums<P, P::kWalk>& scores, int reach) {
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned n = 0; n < P::kWalk / 8; ++n) {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        if (beyond(reach, s, n, e)) scores[s][n][e] = -INFINITY;
      }
    }
  }
}

// Turns scores into weights relative to the largest score, and applies dropout. If the largest
// score changes, `out` and the sums so far are scaled to the new one. (query, key) is the lane's
// first score.
template <class P, bool kDropout>
__device__ void weigh(const Head& head, unsigned query, unsigned key, Softmax<P>& softmax,
                      Sums<P, P::kWalk>& scores, Sums<P, P::kD>& out) {
  const float scale = head.call.scale_of_2;
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float& largest = softmax.largest[s][half];
      float top = largest;
      for (const auto& x : scores[s]) top = fmaxf(top, fmaxf(x[2 * half], x[2 * half + 1]));
      top = over_warp(
          top, [](float a, float b) { return fmaxf(a, b); }, kLanesOfRow);
      const float correction = power_of_2(scale * (largest - top)), shift = scale * top;
      largest = top;
      softmax.sum[s][half] *= correction;
      for (auto& x : out[s]) x[2 * half] *= correction, x[2 * half + 1] *= correction;
#pragma unroll
      for (unsigned n = 0; n < P::kWalk / 8; ++n) {
        for (unsigned e = 2 * half; e < 2 * half + 2; ++e) {
          float& x = scores[s][n][e];
          x = power_of_2(scale * x - shift);
          softmax.sum[s][half] += x;
          if (kDropout) x *= head.kept(query + row_in(s, e), key + column_in(n, e));
        }
      }
    }
  }
}

template <class P, bool kDropout>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    attend(Call call, Narrow queries, Narrow keys, Narrow values, Narrow ys, float* lse) {
  constexpr unsigned kD = P::kD, kWalk = P::kWalk;
  const Head head(call, blockIdx.z, blockIdx.y);
  const Rows q = head.of(queries), k = head.of(keys), v = head.of(values), y = head.of(ys);
  // The first row of y that the block writes.
  const unsigned of_block = (gridDim.x - 1 - blockIdx.x) * P::kRows;
  // The warp's first row within the block.
  const unsigned of_warp = threadIdx.x / kWarp * 16 * P::kStrips;
  const unsigned first = call.first + of_block, query = first + of_warp;
  const unsigned end = min(first + P::kRows, q.T);

  const Tile<kD> of_q{shared_begin()}, stages = of_q.after(P::kRows);
  copy_rows<P, P::kRows>(of_q, q, first);
  copy_stage<P>(stages, k, v, 0);
  wait_for_copies();
  __syncthreads();
  Own<P> own{of_q, of_warp, {}};
  own.hold();

  Sums<P, kD> out = {};
  Softmax<P> softmax = {};
  for (auto& strip : softmax.largest) strip[0] = strip[1] = -INFINITY;
  for (unsigned key = 0, stage = 0; key < end; key += kWalk, stage ^= 1) {
    //! [walk]
    // The copies of this stage are done, and all warps have read the other stage.
    wait_for_copies();
    __syncthreads();
    if (key + kWalk < end) copy_stage<P>(stages.after(2 * kWalk * (stage ^ 1)), k, v, key + kWalk);
    if (key >= query + 16 * P::kStrips) continue;  // all queries of this warp are before these keys

    const Tile<kD> of_k = stages.after(2 * kWalk * stage);
    const unsigned row = query + row_of_sums(), column = key + column_of_sums();
    Sums<P, kWalk> scores = {};
    add_products<P, kWalk>(scores, own, of_k);
    if (key + kWalk - 1 > query) mask<P>(scores, static_cast<int>(row - column));
    weigh<P, kDropout>(head, row, column, softmax, scores, out);
    add_weighted<P, kWalk>(out, scores, of_k.after(kWalk));
    //! [walk]
  }

  float factor[P::kStrips][2];
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const float sum = over_warp(softmax.sum[s][half], Sum{}, kLanesOfRow);
      const unsigned t = of_block + of_warp + row_in(s, 2 * half) + row_of_sums();
      if (lane() % kLanesOfRow == 0 && t < y.T) {
        head.row_of(lse)[t] = call.scale * softmax.largest[s][half] + logf(sum);
      }
      factor[s][half] = 1 / sum;
    }
  }
  const auto of_row = [&](unsigned s, unsigned half) { return factor[s][half]; };
  write_rows<P>(out, of_row, of_q, of_warp, y, of_block + of_warp);
}

}  // namespace

bool fits(const Call& call, std::initializer_list<Narrow> all) {
  // A grid has at most 65,535 layers, and each sequence is one.
  bool fits = (call.D == 64 || call.D == 128) && call.heads / call.H < 65'536;
  for (const Narrow& x : all) {
    fits = fits && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 8 == 0;
  }
  return fits;
}

void attend(Stream& stream, Call call, const Narrow& q, const Narrow& k, const Narrow& v,
            const Narrow& y, float* lse) {
  for_plan<Plan64, Plan128>(call, [&]<class P, bool kDropout>(P, std::bool_constant<kDropout>) {
    launch(stream, grid_of<P>(call, call.T - call.first), P::kThreads, shared_bytes<P>(),
           attend<P, kDropout>, call, q, k, v, y, lse);
  });
}

}  // namespace nanofsdp::ops::cuda::flash
