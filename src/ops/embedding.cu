#include "ops/embedding.h"

#include <algorithm>

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

// Blocks of the backward pass: about the number that a large GPU runs at once.
constexpr unsigned kBlocks = 1024;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kBatch = 8;  // rows of dy that a thread loads at once

// A kernel ends by a trap if an index is outside the table. A GPU has no way to report which index
// it is.

// One warp copies one row. Each lane copies one pack at a time.
template <int n, class T, class W>
__global__ void look_up(const std::int32_t* index, const Pack<W, n>* weight, Pack<T, n>* y,
                        std::int64_t N, std::int64_t V, std::int64_t packs) {
  const std::int64_t i = global_thread() / kWarp;
  if (i >= N) return;
  const std::int64_t row = index[i];
  if (row < 0 || row >= V) __trap();
  for (std::int64_t p = threadIdx.x % kWarp; p < packs; p += kWarp) {
    const Pack<W, n> in = weight[row * packs + p];
    Pack<T, n> out;
    for (int k = 0; k < n; ++k) out.values[k] = narrow_to<T>(widen(in.values[k]));
    y[i * packs + p] = out;
  }
}

// A list of some threads of a block, in order.
struct Listed {
  unsigned of_warp[kWarps];  // one bit for each lane of the warp
  unsigned threads[kThreads];
  unsigned count;
};

// Lists the threads for which `mine` is true. All threads of the block must call it, after they
// have finished with the last list.
__device__ void list(bool mine, Listed& listed) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const unsigned votes = __ballot_sync(0xffffffffu, mine);
  if (lane == 0) listed.of_warp[warp] = votes;
  __syncthreads();
  unsigned before = __popc(votes & ((1u << lane) - 1));
  for (unsigned w = 0; w < warp; ++w) before += __popc(listed.of_warp[w]);
  if (mine) listed.threads[before] = threadIdx.x;
  if (threadIdx.x == kThreads - 1) listed.count = before + mine;
  __syncthreads();
}

// Blocks along x own columns, one for each thread. Blocks along y own `rows` rows of the table
// each. Every block reads the whole list of indices, 256 at a time, and adds the rows of dy that
// belong to its own rows, in order. So no two threads write the same element, nothing is sorted,
// and no scratch is needed. The price is this: with N = 65,536 tokens, V = 50,257 and C = 768,
// 1,020 blocks read 0.26 MB each. The L2 cache gives that in about 0.1 ms (an estimate for an
// H200), and dy and dweight alone take 0.1 ms. One block for each row would read V * N * 4 bytes *
// C / 256 = 40 GB, which takes 7 ms.
template <class T>
__global__ void add_rows(const std::int32_t* index, const T* __restrict__ dy, float* dweight,
                         std::int64_t N, std::int64_t V, std::int64_t C, std::int64_t rows) {
  __shared__ Listed listed;
  __shared__ std::int32_t row_of[kThreads];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows, end = begin + rows;
  // The sum for a row of the table stays in a register until the next rows of dy belong to another.
  float* const column = dweight + c;
  std::int64_t held = -1;
  float sum = 0;
  const auto hold = [&](std::int64_t row) {
    if (held >= 0) column[held * C] = sum;
    held = row;
    if (held >= 0) sum = column[held * C];
  };
  const auto row_at = [&](std::int64_t n) { return n < N ? index[n] : 0; };
  std::int32_t next = row_at(threadIdx.x);
  for (std::int64_t first = 0; first < N; first += kThreads) {
    const std::int64_t n = first + threadIdx.x;
    const std::int32_t row = next;
    next = row_at(n + kThreads);  // loads the next indices while this list is used
    if (row < 0 || row >= V) __trap();
    row_of[threadIdx.x] = row;
    list(n < N && row >= begin && row < end, listed);
    for (unsigned k = 0; c < C && k < listed.count; k += kBatch) {
      const unsigned size = min(kBatch, listed.count - k);
      float x[kBatch];
      for (unsigned j = 0; j < kBatch; ++j) {
        if (j < size) x[j] = widen(dy[(first + listed.threads[k + j]) * C + c]);
      }
      for (unsigned j = 0; j < kBatch; ++j) {
        if (j >= size) break;
        const std::int32_t of_x = row_of[listed.threads[k + j]];
        if (of_x != held) hold(of_x);
        sum += x[j];
      }
    }
    __syncthreads();  // all threads have used the list before the next one is made
  }
  hold(-1);
}

}  // namespace

void run_on_gpu(Stream& stream, const EmbeddingForward& a) {
  const std::int64_t N = a.index.numel(), V = a.weight.dim(0), C = a.weight.dim(1);
  for_types_of(a.y, a.weight, [&]<class T, class W>(T, W) {
    for_packs<kPack>(C % kPack == 0 && fits_packs(a.weight, a.y), [&]<int n>(PackOf<n>) {
      launch(stream, blocks_for(N, kWarps), kThreads, look_up<n, T, W>,
             a.index.data<std::int32_t>(), a.weight.raw(), a.y.raw(), N, V, C / n);
    });
  });
}

void run_on_gpu(Stream& stream, const EmbeddingBackward& a) {
  const std::int64_t N = a.index.numel(), V = a.dweight.dim(0), C = a.dweight.dim(1);
  const unsigned along_x = blocks_for(C), owners = std::max(1u, kBlocks / std::max(1u, along_x));
  const std::int64_t rows = blocks_for(V, owners);
  if (N == 0 || rows == 0) return;
  for_type_of(a.dy, [&]<class T>(T) {
    launch(stream, dim3(along_x, blocks_for(V, rows)), kThreads, add_rows<T>,
           a.index.data<std::int32_t>(), a.dy.data<T>(), a.dweight.f32(), N, V, C, rows);
  });
}

}  // namespace nanofsdp::ops
