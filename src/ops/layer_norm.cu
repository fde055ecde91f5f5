#include "ops/layer_norm.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

// A thread holds at most this number of elements of its row in registers, in packs of kPack or of
// one element. It holds three packs of kPack if they are enough: then two blocks of the backward
// pass fit on a multiprocessor without spilling.
constexpr int kMost = 4 * kPack;
constexpr unsigned kMostWarps = 16;  // warps that share a row
constexpr unsigned kMostThreads = kMostWarps * kWarp;
// Blocks of the backward pass: the number that an H100 runs at once.
constexpr unsigned kParts = 264;

// The warps that share a row: one for up to 1,024 columns, else two, four, eight or sixteen.
struct Team {
  unsigned threads;     // threads of the team
  unsigned thread;      // this thread's number in the team
  std::int64_t number;  // the team's number in the grid

  __device__ explicit Team(unsigned threads)
      : threads(threads), thread(threadIdx.x % threads), number(global_thread() / threads) {}

  // The column of this thread's element k. The threads of the team take kPack elements in turn,
  // also if they read them one by one, so the bits do not depend on where a tensor begins. The
  // kernels call fmaf for the same reason: a compiler that chose what to fuse might choose
  // otherwise for packs.
  __device__ int column(int k) const {
    return static_cast<int>(k / kPack * threads + thread) * kPack + k % kPack;
  }

  // The sum of `value` over all threads of the team. Each of them gets it. All teams of the block
  // must call it.
  __device__ float sum(float value) const {
    __shared__ float of_warp[kMostWarps];
    value = over_warp(value, Sum{});
    if (threads == kWarp) return value;
    __syncthreads();  // all threads have read the last sum
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    const unsigned first = (threadIdx.x - thread) / kWarp;
    value = of_warp[first];
    for (unsigned w = 1; w < threads / kWarp; ++w) value += of_warp[first + w];
    return value;
  }
};

// Visits the numbers of a thread's elements in a loop that is unrolled, because an index into
// registers must be a constant.
template <int kCount, class Visit>
__device__ void each(const Visit& visit) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) visit(k);
}

// This thread's elements of a row of C, with zeros beyond its end.
template <int V, int n, class T>
__device__ void read(const Team& team, const T* row, int C, Pack<T, n> (&held)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int column = team.column(v * n);
    held[v] = {};
    if (column < C) held[v] = *reinterpret_cast<const Pack<T, n>*>(row + column);
  }
}

template <int n, int kCount, class T>
__device__ void write(const Team& team, T* row, int C, const float (&x)[kCount]) {
#pragma unroll
  for (int v = 0; v < kCount / n; ++v) {
    Pack<T, n> pack;
#pragma unroll
    for (int k = 0; k < n; ++k) pack.values[k] = narrow_to<T>(x[v * n + k]);
    const int column = team.column(v * n);
    if (column < C) *reinterpret_cast<Pack<T, n>*>(row + column) = pack;
  }
}

template <int V, int n, class T>
__device__ float at(const Pack<T, n> (&held)[V], int k) {
  return widen(held[k / n].values[k % n]);
}

// The kernel reads each row from memory once. A team beyond the last row has no columns.
template <int kCount, int kWide, class T, class W>
__global__ void __launch_bounds__(kMostThreads)
    forward(const T* x, const W* weight, const W* bias, T* y, float* mean_out, float* rstd_out,
            std::int64_t R, int C, unsigned threads) {
  const Team team(threads);
  const std::int64_t r = min(team.number, R - 1);
  const int width = team.number < R ? C : 0;
  Pack<T, kWide> row[kCount / kWide];
  read(team, x + r * C, width, row);
  // The mean is found as on the CPU, for the same reasons: a guess that is corrected twice.
  float mean = widen(x[r * C]);
  const auto from_mean = [&](int k) {
    return team.column(k / kWide * kWide) < width ? at(row, k) - mean : 0;
  };
  for (int pass = 0; pass < 2; ++pass) {
    float sum = 0;
    each<kCount>([&](int k) { sum += from_mean(k); });
    mean += team.sum(sum) / static_cast<float>(C);
  }
  float squares = 0;
  each<kCount>([&](int k) { squares = fmaf(from_mean(k), from_mean(k), squares); });
  const float rstd = 1 / sqrtf(team.sum(squares) / static_cast<float>(C) + kLayerNormEps);
  Pack<W, kWide> scales[kCount / kWide], shifts[kCount / kWide];
  read(team, weight, width, scales);
  read(team, bias, bias != nullptr ? width : 0, shifts);
  float out[kCount];
  each<kCount>([&](int k) { out[k] = fmaf(from_mean(k) * rstd, at(scales, k), at(shifts, k)); });
  write<kWide>(team, y + r * C, width, out);
  if (team.thread > 0 || width == 0) return;
  mean_out[r] = mean;
  rstd_out[r] = rstd;
}

// The teams take rows in turn. A thread adds up what its columns contribute to dweight and dbias.
// At the end the block writes its sums to `parts`, [blocks, 2, C]. So the order of the sums does
// not depend on the GPU.
template <int kCount, int kWide, bool kBias, class T, class W>
__global__ void __launch_bounds__(kMostThreads)
    backward(const T* dy, const T* x, const W* weight, const float* mean_in, const float* rstd_in,
             T* dx, float* parts, std::int64_t R, int C, unsigned threads) {
  __shared__ float of_thread[kPack][kMostThreads];
  const Team team(threads);
  const std::int64_t teams = blockDim.x / threads;
  Pack<W, kWide> scales[kCount / kWide];
  read(team, weight, C, scales);
  float sums[kBias ? 2 : 1][kCount] = {};
  for (std::int64_t first = blockIdx.x * teams; first < R; first += gridDim.x * teams) {
    const std::int64_t turn = first + threadIdx.x / threads, r = min(turn, R - 1);
    const int width = turn < R ? C : 0;
    Pack<T, kWide> dys[kCount / kWide], xs[kCount / kWide];
    read(team, dy + r * C, width, dys);
    read(team, x + r * C, width, xs);
    //! [backward_row]
    const float mean = mean_in[r], rstd = rstd_in[r];
    float sum_g = 0, sum_gn = 0;
    each<kCount>([&](int k) {
      const float d = at(dys, k), w = at(scales, k), n = (at(xs, k) - mean) * rstd;
      sum_g = fmaf(d, w, sum_g);
      sum_gn = fmaf(d * w, n, sum_gn);
      sums[0][k] = fmaf(d, n, sums[0][k]);
      if (kBias) sums[kBias][k] += d;
    });
    const float mean_g = team.sum(sum_g) / static_cast<float>(C);
    const float mean_gn = team.sum(sum_gn) / static_cast<float>(C);
    float out[kCount];
    each<kCount>([&](int k) {
      const float d = at(dys, k), w = at(scales, k), n = (at(xs, k) - mean) * rstd;
      out[k] = fmaf(-n, mean_gn, fmaf(d, w, -mean_g)) * rstd;
    });
    //! [backward_row]
    write<kWide>(team, dx + r * C, width, out);
  }
#pragma unroll
  // Adds up the teams of the block, pack after pack.
  for (int v = 0; v < kCount / kPack * (kBias ? 2 : 1); ++v) {
    const int which = v / (kCount / kPack), pack = v % (kCount / kPack) * kPack;
    __syncthreads();
    for (int k = 0; k < kPack; ++k) of_thread[k][threadIdx.x] = sums[which][pack + k];
    __syncthreads();
    for (int k = 0; k < kPack && threadIdx.x < threads; ++k) {
      float sum = 0;
      for (unsigned t = threadIdx.x; t < blockDim.x; t += threads) sum += of_thread[k][t];
      const int c = team.column(pack + k);
      if (c < C) parts[(std::int64_t{blockIdx.x} * 2 + which) * C + c] = sum;
    }
  }
}

struct Parts : Scratch {};

// How teams share the rows. A team has a power of two of warps, so a block consists of whole teams.
struct Plan {
  unsigned team = kWarp;  // threads of a team
  unsigned block = kThreads;
  bool packed;
  bool small;  // whether three packs for each thread are enough

  template <class... Tensors>
  Plan(std::int64_t C, const Tensors&... tensors)
      : packed(C % kPack == 0 && fits_packs(tensors...)) {
    while (team < kMostThreads && team * kMost < C) team *= 2;
    NANOFSDP_CHECK_SHAPE(team * kMost >= C, .what = "layer_norm: x",
                         .expected = "rows of at most 16384 elements on a GPU",
                         .got = std::to_string(C));
    block = std::max(team, kThreads);
    small = packed && team * 3 * kPack >= C;
  }
};

}  // namespace

void run_on_gpu(Stream& stream, const LayerNormForward& a) {
  const std::int64_t R = a.x.dim(0), C = a.x.dim(1);
  const Plan plan(C, a.x, a.y, a.weight, a.bias);
  for_types_of(a.x, a.weight, [&]<class T, class W>(T, W) {
    const auto kernel = plan.small    ? forward<3 * kPack, kPack, T, W>
                        : plan.packed ? forward<kMost, kPack, T, W>
                                      : forward<kMost, 1, T, W>;
    launch(stream, blocks_for(R, plan.block / plan.team), plan.block, kernel, a.x.data<T>(),
           a.weight.data<W>(), a.bias.raw(), a.y.data<T>(), a.mean.f32(), a.rstd.f32(), R, C,
           plan.team);
  });
}

void run_on_gpu(Stream& stream, const LayerNormBackward& a) {
  const std::int64_t R = a.x.dim(0), C = a.x.dim(1);
  const Plan plan(C, a.dy, a.x, a.dx, a.weight);
  const unsigned count = std::min(kParts, blocks_for(R, plan.block / plan.team));
  float* const parts = scratch<Parts, float>(stream, count * 2 * C);
  const auto run = [&]<bool kBias, class T, class W>() {
    const auto kernel = plan.small    ? backward<3 * kPack, kPack, kBias, T, W>
                        : plan.packed ? backward<kMost, kPack, kBias, T, W>
                                      : backward<kMost, 1, kBias, T, W>;
    launch(stream, count, plan.block, kernel, a.dy.data<T>(), a.x.data<T>(), a.weight.data<W>(),
           a.mean.f32(), a.rstd.f32(), a.dx.data<T>(), parts, R, C, plan.team);
  };
  for_types_of(a.x, a.weight, [&]<class T, class W>(T, W) {
    a.dbias.empty() ? run.template operator()<false, T, W>()
                    : run.template operator()<true, T, W>();
  });
  launch(stream, dim3(blocks_for(C, kColumns), 2), dim3(kColumns, kTurns), add_columns<float>,
         parts, count, C, 2 * C, a.dweight.raw(), a.dbias.raw());
}

}  // namespace nanofsdp::ops
