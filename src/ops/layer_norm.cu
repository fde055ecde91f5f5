#include "ops/layer_norm.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

// A thread holds at most this number of packs of its row in registers. It holds three if they are
// enough: then two blocks of the backward pass fit on a multiprocessor without spilling.
constexpr int kMostPacks = 4;
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

  // The column of this thread's element k. The threads of the team take packs in turn.
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

template <int V>
using Elements = float[V * kPack];

// Visits the numbers of a thread's elements in a loop that is unrolled, because an index into
// registers must be a constant.
template <int V, class Visit>
__device__ void each(const Visit& visit) {
#pragma unroll
  for (int k = 0; k < V * kPack; ++k) visit(k);
}

// This thread's elements of a row of C, with zeros beyond its end.
template <bool kPacked, int V, class T>
__device__ void read(const Team& team, const T* row, int C, Pack<T, kPack> (&held)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int column = team.column(v * kPack);
    held[v] = {};
    if (kPacked) {
      if (column < C) held[v] = *reinterpret_cast<const Pack<T, kPack>*>(row + column);
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (column + k < C) held[v].values[k] = row[column + k];
      }
    }
  }
}

template <bool kPacked, int V, class T>
__device__ void write(const Team& team, T* row, int C, const Elements<V>& x) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    Pack<T, kPack> pack;
#pragma unroll
    for (int k = 0; k < kPack; ++k) pack.values[k] = narrow_to<T>(x[v * kPack + k]);
    const int column = team.column(v * kPack);
    if (kPacked) {
      if (column < C) *reinterpret_cast<Pack<T, kPack>*>(row + column) = pack;
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (column + k < C) row[column + k] = pack.values[k];
      }
    }
  }
}

template <int V, class T>
__device__ float at(const Pack<T, kPack> (&held)[V], int k) {
  return widen(held[k / kPack].values[k % kPack]);
}

// The kernel reads each row from memory once. A team beyond the last row has no columns.
template <int V, bool kPacked, class T, class W>
__global__ void __launch_bounds__(kMostThreads)
    forward(const T* x, const W* weight, const W* bias, T* y, float* mean_out, float* rstd_out,
            std::int64_t R, int C, unsigned threads) {
  const Team team(threads);
  const std::int64_t r = min(team.number, R - 1);
  const int width = team.number < R ? C : 0;
  Pack<T, kPack> row[V];
  read<kPacked>(team, x + r * C, width, row);
  // The mean is found as on the CPU, for the same reasons: a guess that is corrected twice.
  float mean = widen(x[r * C]);
  const auto from_mean = [&](int k) {
    return team.column(kPacked ? k / kPack * kPack : k) < width ? at(row, k) - mean : 0;
  };
  for (int pass = 0; pass < 2; ++pass) {
    float sum = 0;
    each<V>([&](int k) { sum += from_mean(k); });
    mean += team.sum(sum) / static_cast<float>(C);
  }
  float squares = 0;
  each<V>([&](int k) { squares += from_mean(k) * from_mean(k); });
  const float rstd = 1 / sqrtf(team.sum(squares) / static_cast<float>(C) + kLayerNormEps);
  Pack<W, kPack> scales[V], shifts[V];
  read<kPacked>(team, weight, width, scales);
  read<kPacked>(team, bias, bias != nullptr ? width : 0, shifts);
  Elements<V> out;
  each<V>([&](int k) { out[k] = (at(row, k) - mean) * rstd * at(scales, k) + at(shifts, k); });
  write<kPacked, V>(team, y + r * C, width, out);
  if (team.thread > 0 || width == 0) return;
  mean_out[r] = mean;
  rstd_out[r] = rstd;
}

// The teams take rows in turn. A thread adds up what its columns contribute to dweight and dbias.
// At the end the block writes its sums to `parts`, [blocks, 2, C]. So the order of the sums does
// not depend on the GPU.
template <int V, bool kPacked, bool kBias, class T, class W>
__global__ void __launch_bounds__(kMostThreads)
    backward(const T* dy, const T* x, const W* weight, const float* mean_in, const float* rstd_in,
             T* dx, float* parts, std::int64_t R, int C, unsigned threads) {
  __shared__ float of_thread[kPack][kMostThreads];
  const Team team(threads);
  const std::int64_t teams = blockDim.x / threads;
  Pack<W, kPack> scales[V];
  read<kPacked>(team, weight, C, scales);
  float sums[kBias ? 2 : 1][V * kPack] = {};
  for (std::int64_t first = blockIdx.x * teams; first < R; first += gridDim.x * teams) {
    const std::int64_t turn = first + threadIdx.x / threads, r = min(turn, R - 1);
    const int width = turn < R ? C : 0;
    Pack<T, kPack> dys[V], xs[V];
    read<kPacked>(team, dy + r * C, width, dys);
    read<kPacked>(team, x + r * C, width, xs);
    //! [backward_row]
    const float mean = mean_in[r], rstd = rstd_in[r];
    float sum_g = 0, sum_gn = 0;
    each<V>([&](int k) {
      const float g = at(dys, k) * at(scales, k), n = (at(xs, k) - mean) * rstd;
      sum_g += g;
      sum_gn += g * n;
      sums[0][k] += at(dys, k) * n;
      if (kBias) sums[kBias][k] += at(dys, k);
    });
    const float mean_g = team.sum(sum_g) / static_cast<float>(C);
    const float mean_gn = team.sum(sum_gn) / static_cast<float>(C);
    Elements<V> out;
    each<V>([&](int k) {
      const float g = at(dys, k) * at(scales, k), n = (at(xs, k) - mean) * rstd;
      out[k] = (g - mean_g - n * mean_gn) * rstd;
    });
    //! [backward_row]
    write<kPacked, V>(team, dx + r * C, width, out);
  }
#pragma unroll
  // Adds up the teams of the block, pack after pack.
  for (int v = 0; v < V * (kBias ? 2 : 1); ++v) {
    const int which = v / V, pack = v % V * kPack;
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

// Blocks along x take 32 columns each, and add 32 parts at a time. Blocks along y are dweight and
// dbias.
__global__ void add_parts(const float* parts, int count, int C, float* dweight, float* dbias) {
  __shared__ float of_turn[kWarp][kWarp];
  float* const to = blockIdx.y == 0 ? dweight : dbias;
  const int c = static_cast<int>(blockIdx.x * kWarp + threadIdx.x);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.y); i < count && c < C && to != nullptr; i += kWarp) {
    sum += parts[(std::int64_t{i} * 2 + blockIdx.y) * C + c];
  }
  of_turn[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= C || to == nullptr) return;
  for (unsigned turn = 1; turn < kWarp; ++turn) sum += of_turn[turn][threadIdx.x];
  to[c] += sum;
}

struct Parts : Scratch {};

template <class T>
T* pointer(const Tensor& t) {
  return t.empty() ? nullptr : t.data<T>();
}

// How teams share the rows. A team has a power of two of warps, so a block consists of whole teams.
struct Plan {
  unsigned team = kWarp;  // threads of a team
  unsigned block = kThreads;
  bool packed;
  bool small;  // whether three packs for each thread are enough

  template <class... Tensors>
  Plan(std::int64_t C, const Tensors&... tensors)
      : packed(C % kPack == 0 && fits_packs(tensors...)) {
    while (team < kMostThreads && team * kMostPacks * kPack < C) team *= 2;
    NANOFSDP_CHECK_SHAPE(team * kMostPacks * kPack >= C, .what = "layer_norm: x",
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
    const auto kernel = plan.small    ? forward<3, true, T, W>
                        : plan.packed ? forward<kMostPacks, true, T, W>
                                      : forward<kMostPacks, false, T, W>;
    launch(stream, blocks_for(R, plan.block / plan.team), plan.block, kernel, a.x.data<T>(),
           a.weight.data<W>(), pointer<W>(a.bias), a.y.data<T>(), a.mean.f32(), a.rstd.f32(), R, C,
           plan.team);
  });
}

void run_on_gpu(Stream& stream, const LayerNormBackward& a) {
  const std::int64_t R = a.x.dim(0), C = a.x.dim(1);
  const Plan plan(C, a.dy, a.x, a.dx, a.weight);
  const unsigned count = std::min(kParts, blocks_for(R, plan.block / plan.team));
  float* const parts = scratch<Parts, float>(stream, count * 2 * C);
  const auto run = [&]<bool kBias, class T, class W>() {
    const auto kernel = plan.small    ? backward<3, true, kBias, T, W>
                        : plan.packed ? backward<kMostPacks, true, kBias, T, W>
                                      : backward<kMostPacks, false, kBias, T, W>;
    launch(stream, count, plan.block, kernel, a.dy.data<T>(), a.x.data<T>(), a.weight.data<W>(),
           a.mean.f32(), a.rstd.f32(), a.dx.data<T>(), parts, R, C, plan.team);
  };
  for_types_of(a.x, a.weight, [&]<class T, class W>(T, W) {
    a.dbias.empty() ? run.template operator()<false, T, W>()
                    : run.template operator()<true, T, W>();
  });
  launch(stream, dim3(blocks_for(C, kWarp), 2), dim3(kWarp, kWarp), add_parts, parts, count, C,
         pointer<float>(a.dweight), pointer<float>(a.dbias));
}

}  // namespace nanofsdp::ops
