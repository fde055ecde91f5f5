#include "ops/layer_norm.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

// One row a block: it comes from memory once, and is still near when the next pass asks for it.
template <class W>
__global__ void forward(const float* x, const W* weight, const W* bias, float* y, float* mean_out,
                        float* rstd_out, int C) {
  const std::int64_t r = blockIdx.x;
  x += r * C;
  y += r * C;
  // The mean as the CPU finds it, for its reasons: a guess, mended twice.
  float mean = x[0];
  for (int pass = 0; pass < 2; ++pass) {
    mean += block_sum<float>(C, [=](int c) { return x[c] - mean; }) / static_cast<float>(C);
  }
  const auto square = [=](int c) { return (x[c] - mean) * (x[c] - mean); };
  const float var = block_sum<float>(C, square) / static_cast<float>(C);
  const float rstd = 1 / sqrtf(var + kLayerNormEps);
  block_write(C, y, [=](int c) {
    return (x[c] - mean) * rstd * widen(weight[c]) + (bias != nullptr ? widen(bias[c]) : 0);
  });
  if (threadIdx.x > 0) return;
  mean_out[r] = mean;
  rstd_out[r] = rstd;
}

// One row a block, as above.
template <class W>
__global__ void backward_x(const float* dy, const float* x, const W* weight, const float* mean_in,
                           const float* rstd_in, float* dx, int C) {
  const std::int64_t r = blockIdx.x;
  dy += r * C;
  x += r * C;
  //! [backward_row]
  const float mean = mean_in[r];
  const float rstd = rstd_in[r];
  const auto g = [=](int c) { return dy[c] * widen(weight[c]); };
  const float mean_g = block_sum<float>(C, g) / static_cast<float>(C);
  const auto gn = [=](int c) { return g(c) * (x[c] - mean); };
  const float mean_gn = block_sum<float>(C, gn) * rstd / static_cast<float>(C);
  block_write(C, dx + r * C,
              [=](int c) { return (g(c) - mean_g - (x[c] - mean) * (rstd * mean_gn)) * rstd; });
  //! [backward_row]
}

constexpr unsigned kColumns = 32;
constexpr unsigned kTurns = 8;
constexpr std::int64_t kRowsOfBlock = 1024;

// A block takes 32 columns of 1024 rows, eight at a time, and leaves their sums in parts, [blocks
// of rows, 2, C]: none depends on which block is first. Blocks along y share the rows. It reads dy
// and x once more than a kernel that also made dx would have to.
__global__ void sum_weight(const float* dy, const float* x, const float* mean, const float* rstd,
                           float* parts, std::int64_t R, int C) {
  __shared__ float of_weight[kTurns][kColumns];
  __shared__ float of_bias[kTurns][kColumns];
  const auto c = static_cast<int>(blockIdx.x * kColumns + threadIdx.x);
  const std::int64_t first = blockIdx.y * kRowsOfBlock;
  const std::int64_t end = min(first + kRowsOfBlock, R);
  float weight = 0;
  float bias = 0;
#pragma unroll 4
  for (std::int64_t r = first + threadIdx.y; c < C && r < end; r += kTurns) {
    const float g = dy[r * C + c];
    weight += g * ((x[r * C + c] - mean[r]) * rstd[r]);
    bias += g;
  }
  of_weight[threadIdx.y][threadIdx.x] = weight;
  of_bias[threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y > 0 || c >= C) return;
  for (unsigned turn = 1; turn < kTurns; ++turn) {
    weight += of_weight[turn][threadIdx.x];
    bias += of_bias[turn][threadIdx.x];
  }
  parts[std::int64_t{blockIdx.y} * 2 * C + c] = weight;
  parts[(std::int64_t{blockIdx.y} * 2 + 1) * C + c] = bias;
}

__global__ void add_parts(const float* parts, int count, int C, float* dweight, float* dbias) {
  const std::int64_t c = global_thread();
  if (c >= C) return;
  float weight = 0;
  float bias = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    weight += parts[std::int64_t{i} * 2 * C + c];
    bias += parts[(std::int64_t{i} * 2 + 1) * C + c];
  }
  if (dweight != nullptr) dweight[c] += weight;
  if (dbias != nullptr) dbias[c] += bias;
}

struct Parts : Scratch {};

template <class T>
T* pointer(const Tensor& t) {
  return t.empty() ? nullptr : t.data<T>();
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormForward& a) {
  const std::int64_t R = a.x.dim(0);
  const std::int64_t C = a.x.dim(1);
  for_type_of(a.weight, [&]<class W>(W) {
    launch(stream, blocks_for(R, 1), threads_for(C), forward<W>, a.x.f32(), a.weight.data<W>(),
           pointer<W>(a.bias), a.y.f32(), a.mean.f32(), a.rstd.f32(), C);
  });
}

void layer_norm(Stream& stream, const LayerNormBackward& a) {
  const std::int64_t R = a.x.dim(0);
  const std::int64_t C = a.x.dim(1);
  float* const dweight = pointer<float>(a.dweight);
  float* const dbias = pointer<float>(a.dbias);
  if (dweight != nullptr || dbias != nullptr) {  // first, as dx may take the place of dy
    const unsigned count = blocks_for(R, kRowsOfBlock);
    auto* const parts = static_cast<float*>(scratch<Parts>(stream, count * 2 * C * sizeof(float)));
    launch(stream, dim3(blocks_for(C, kColumns), count), dim3(kColumns, kTurns), sum_weight,
           a.dy.f32(), a.x.f32(), a.mean.f32(), a.rstd.f32(), parts, R, C);
    launch(stream, blocks_for(C), kThreads, add_parts, parts, count, C, dweight, dbias);
  }
  for_type_of(a.weight, [&]<class W>(W) {
    launch(stream, blocks_for(R, 1), threads_for(C), backward_x<W>, a.dy.f32(), a.x.f32(),
           a.weight.data<W>(), a.mean.f32(), a.rstd.f32(), a.dx.f32(), C);
  });
}

}  // namespace nanofsdp::ops::cuda
