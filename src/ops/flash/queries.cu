#include <type_traits>

#include "ops/flash/tile.cuh"

// Attention, backward, in bfloat16 on tensor cores: the gradient of queries. This kernel owns
// queries and writes dQ; the kernel of keys.cu owns keys and writes dK and dV. No block adds to the
// result of another block, so the bits are the same on every run.
//
// The price is this: both kernels compute scores and dO V^T, so there are 7 products instead of 5.
// A single kernel that owns keys would have to add up its parts of dQ through memory, in float32.
// At T = 1024 and tiles of 128, each element of dQ would be read and written 4.5 times: 1.8 GB for
// 64 x 12 heads of 64, which takes 0.4 to 0.5 ms on an H100. The two further products take less
// time, and need no memory.

namespace nanofsdp::ops::cuda::flash {
namespace {

//                     D warps strips walk step blocks
using Plan64 = Plan<64, 4, 2, 64, 32, 2>;
using Plan128 = Plan<128, 4, 1, 64, 32, 2>;

// Shared memory for the rows of queries and of dO, and twice for those of keys and values.
template <class P>
constexpr unsigned shared_bytes() {
  return Tile<P::kD>::bytes(2 * P::kRows + 4 * P::kWalk);
}

// Numbers of rows g and g + 8 of each strip.
template <class P>
using OfRows = float[P::kStrips][2];

// delta = dO . O for the rows of this warp.
template <class P>
__device__ void find_delta(const Own<P>& own_dy, Tile<P::kD> of_y, OfRows<P>& delta) {
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned d = 0; d < P::kD; d += 16) {
      unsigned x[4], y[4];
      own_dy.get(x, s, d);
      of_y.left(y, own_dy.row + 16 * s, d);
      for (int i = 0; i < 4; ++i) {
        delta[s][i % 2] += low(x[i]) * low(y[i]) + high(x[i]) * high(y[i]);
      }
    }
    for (float& half : delta[s]) half = over_warp(half, Sum{}, kLanesOfRow);
  }
}

template <class P, bool kDropout>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    differentiate(Call call, Given<bfloat16> given, Narrow dqs) {
  constexpr unsigned kD = P::kD, kWalk = P::kWalk, kStep = P::kStep;
  static_assert(P::kRows <= 2 * kWalk, "rows of y fit a stage");
  const Head head(call, blockIdx.z, blockIdx.y);
  const Rows k = head.of(given.k), v = head.of(given.v);
  const unsigned T = call.T, first = (gridDim.x - 1 - blockIdx.x) * P::kRows;
  const unsigned of_warp = threadIdx.x / kWarp * 16 * P::kStrips, query = first + of_warp;
  const unsigned end = min(first + P::kRows, T);

  const Tile<kD> of_q{shared_begin()}, of_dy = of_q.after(P::kRows);
  const Tile<kD> stages = of_dy.after(P::kRows), of_y = stages.after(2 * kWalk);
  copy_rows<P, P::kRows>(of_q, head.of(given.q), first);
  copy_rows<P, P::kRows>(of_dy, head.of(given.dy), first);
  copy_rows<P, P::kRows>(of_y, head.of(given.y), first);
  copy_stage<P>(stages, k, v, 0);
  wait_for_copies();
  __syncthreads();
  Own<P> own_q{of_q, of_warp, {}}, own_dy{of_dy, of_warp, {}};
  own_q.hold();
  own_dy.hold();

  OfRows<P> sum, delta = {};
  find_delta(own_dy, of_y, delta);
#pragma unroll
  for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned t = query + row_in(s, 2 * half) + row_of_sums();
      const std::int64_t i = std::int64_t{head.number} * T + t;
      sum[s][half] = t < T ? kLog2E * given.lse[i] : 0;
      if (lane() % kLanesOfRow == 0 && t < T) {
        reinterpret_cast<Known*>(given.delta)[i] = {sum[s][half], delta[s][half]};
      }
    }
  }

  Sums<P, kD> dq = {};
  // Walks over kWalk keys. `masked` says whether a query of this warp is before one of the keys.
  const auto walk = [&](auto masked, Tile<kD> of_k, unsigned key) {
    constexpr bool kMasked = decltype(masked)::value;
#pragma unroll 1
    for (unsigned j = 0; j < kWalk; j += kStep) {
      if (kMasked && key + j >= query + 16 * P::kStrips) break;
      const unsigned row = query + row_of_sums(), column = key + j + column_of_sums();
      const int reach = static_cast<int>(row - column);
      Sums<P, kStep> p = {}, ds = {};
      const Tile<kD> step_k = of_k.after(j);
      add_products<P, kStep>(p, own_q, step_k);
      add_products<P, kStep>(ds, own_dy, step_k.after(kWalk));
#pragma unroll
      for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
        for (unsigned n = 0; n < kStep / 8; ++n) {
#pragma unroll
          for (unsigned e = 0; e < 4; ++e) {
            const float weight = power_of_2(call.scale_of_2 * p[s][n][e] - sum[s][e / 2]);
            float dp = ds[s][n][e];
            if (kDropout) dp *= head.kept(row + row_in(s, e), column + column_in(n, e));
            ds[s][n][e] = kMasked && beyond(reach, s, n, e) ? 0 : (dp - delta[s][e / 2]) * weight;
          }
        }
      }
      add_weighted<P, kStep>(dq, ds, step_k);
    }
  };
  for (unsigned key = 0, stage = 0; key < end; key += kWalk, stage ^= 1) {
    // The copies of this stage are done, and all warps have read the other stage; the first time,
    // y.
    wait_for_copies();
    __syncthreads();
    if (key + kWalk < end) copy_stage<P>(stages.after(2 * kWalk * (stage ^ 1)), k, v, key + kWalk);
    const Tile<kD> of_k = stages.after(2 * kWalk * stage);
    key + kWalk - 1 <= query ? walk(std::false_type{}, of_k, key)
                             : walk(std::true_type{}, of_k, key);
  }
  const auto scale = [&](unsigned, unsigned) { return call.scale; };
  write_rows<P>(dq, scale, of_q, of_warp, head.of(dqs), query);
}

}  // namespace

void differentiate_queries(Stream& stream, Call call, const Given<bfloat16>& given,
                           const Narrow& dq) {
  for_plan<Plan64, Plan128>(call, [&]<class P, bool kDropout>(P, std::bool_constant<kDropout>) {
    launch(stream, grid_of<P>(call, call.T), P::kThreads, shared_bytes<P>(),
           differentiate<P, kDropout>, call, given, dq);
  });
}

}  // namespace nanofsdp::ops::cuda::flash
