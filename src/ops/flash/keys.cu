#include <type_traits>

#include "ops/flash/tile.cuh"

// Attention, backward, in bfloat16 on tensor cores: the gradients of keys and values. A block owns
// keys and walks over the queries that see them, of every query head that reads them, and adds in
// their order. Its scores are transposed: the rows are keys. So weights and their gradients can be
// left factors without a further step.

namespace nanofsdp::ops::cuda::flash {
namespace {

//                     D warps strips walk step blocks
using Plan64 = Plan<64, 4, 2, 64, 16, 2>;
using Plan128 = Plan<128, 4, 1, 64, 16, 2>;

// Shared memory for the rows of keys and of values, and for two stages. A stage has kWalk queries
// and behind them their dO. Its numbers of Known are counted like its queries, so those of the
// second stage begin at 2 * kWalk.
template <class P>
constexpr unsigned shared_bytes() {
  return Tile<P::kD>::bytes(2 * P::kRows + 4 * P::kWalk) +
         3 * P::kWalk * static_cast<unsigned>(sizeof(Known));
}

template <class P, bool kDropout>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    differentiate(Call call, Given<bfloat16> given, Narrow dks, Narrow dvs) {
  constexpr unsigned kD = P::kD, kWalk = P::kWalk, kStep = P::kStep;
  const unsigned T = call.T, first = blockIdx.x * P::kRows;
  // The first query head that reads these keys.
  const Head one(call, blockIdx.z, blockIdx.y * call.group);
  const unsigned of_warp = threadIdx.x / kWarp * 16 * P::kStrips, key = first + of_warp;
  // The first query that may see a key, and the steps over the queries of one head.
  const unsigned begin = first / kWalk * kWalk, steps = (T - begin + kWalk - 1) / kWalk;

  const Tile<kD> of_k{shared_begin()}, of_v = of_k.after(P::kRows), stages = of_v.after(P::kRows);
  const Shared of_known = stages.after(4 * kWalk).begin;
  const auto copy_step = [&](unsigned step) {
    const Head head(call, one.b, one.h + step / steps);
    const unsigned stage = step % 2, query = begin + step % steps * kWalk;
    copy_stage<P>(stages.after(2 * kWalk * stage), head.of(given.q, head.h),
                  head.of(given.dy, head.h), query);
    const unsigned r = threadIdx.x, t = query + r;
    if (r >= kWalk) return;
    copy_later<sizeof(Known)>(
        of_known + sizeof(Known) * (2 * kWalk * stage + r),
        reinterpret_cast<const Known*>(given.delta) + std::int64_t{head.number} * T + t, t < T);
  };
  copy_rows<P, P::kRows>(of_k, one.of(given.k, blockIdx.y), first);
  copy_rows<P, P::kRows>(of_v, one.of(given.v, blockIdx.y), first);
  copy_step(0);
  wait_for_copies();
  __syncthreads();
  Own<P> own_k{of_k, of_warp, {}}, own_v{of_v, of_warp, {}};
  own_k.hold();
  own_v.hold();

  Sums<P, kD> dk = {}, dv = {};
  // Walks over kWalk queries. Queries after the last one are zeros, like their dO, sums and delta,
  // and give 0. `masked` says whether one of the queries is before a key of this warp.
  const auto walk = [&](auto masked, const Head& head, unsigned stage, unsigned query) {
    constexpr bool kMasked = decltype(masked)::value;
#pragma unroll 1
    for (unsigned i = 2 * kWalk * stage; i % (2 * kWalk) < kWalk; i += kStep) {
      const unsigned t = query + i % kWalk, row = key + row_of_sums(),
                     column = t + column_of_sums();
      if (kMasked && t + kStep <= key) continue;
      const int reach = static_cast<int>(row - column);
      Sums<P, kStep> p = {}, ds = {};
      const Tile<kD> of_q = stages.after(i);  // and their dO, kWalk rows on
      add_products<P, kStep>(p, own_k, of_q);
      add_products<P, kStep>(ds, own_v, of_q, kWalk);
#pragma unroll
      for (unsigned n = 0; n < kStep / 8; ++n) {
        // The numbers of two queries.
        const float4 known = load16(of_known + sizeof(Known) * (i + 8 * n + column_of_sums()));
#pragma unroll
        for (unsigned s = 0; s < P::kStrips; ++s) {
#pragma unroll
          for (unsigned e = 0; e < 4; ++e) {
            float kept = 1;
            if (kDropout) kept = head.kept(column + column_in(n, e), row + row_in(s, e));
            const float sum = e % 2 == 0 ? known.x : known.z;
            const float delta = e % 2 == 0 ? known.y : known.w;
            float weight = power_of_2(call.scale_of_2 * p[s][n][e] - sum);
            if (kMasked && before(reach, s, n, e)) weight = 0;
            p[s][n][e] = kept * weight;
            ds[s][n][e] = (kept * ds[s][n][e] - delta) * weight;
          }
        }
      }
      add_weighted<P, kStep>(dv, p, of_q, kWalk);
      add_weighted<P, kStep>(dk, ds, of_q);
    }
  };
  const unsigned all_steps = call.group * steps;
  for (unsigned step = 0; step < all_steps; ++step) {
    const Head head(call, one.b, one.h + step / steps);
    const unsigned query = begin + step % steps * kWalk;
    // The copies of this stage are done, and all warps have read the other stage.
    wait_for_copies();
    __syncthreads();
    if (step + 1 < all_steps) copy_step(step + 1);
    query >= key + 16 * P::kStrips - 1 ? walk(std::false_type{}, head, step % 2, query)
                                       : walk(std::true_type{}, head, step % 2, query);
  }
  const auto scale = [&](unsigned, unsigned) { return call.scale; };
  write_rows<P>(dk, scale, of_k, of_warp, one.of(dks, blockIdx.y), key);
  const auto as_they_are = [](unsigned, unsigned) { return 1.0f; };
  write_rows<P>(dv, as_they_are, of_v, of_warp, one.of(dvs, blockIdx.y), key);
}

}  // namespace

void differentiate_keys(Stream& stream, Call call, const Given<bfloat16>& given, const Narrow& dk,
                        const Narrow& dv) {
  for_plan<Plan64, Plan128>(call, [&]<class P, bool kDropout>(P, std::bool_constant<kDropout>) {
    launch(stream, grid_of<P>(call, call.T, call.group), P::kThreads, shared_bytes<P>(),
           differentiate<P, kDropout>, call, given, dk, dv);
  });
}

}  // namespace nanofsdp::ops::cuda::flash
