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

// Eight float32 are the 32 bytes that memory hands out at a time.
constexpr unsigned kColumns = 8;
constexpr unsigned kRows = 128;

// Eight columns a block, which walks down all rows, 128 at a time: no sum leaves its block, so none
// needs a place to wait in memory or depends on which block is first. Narrow blocks, as a model has
// few columns: the 768 of GPT-2 keep 96 multiprocessors busy. It reads dy and x once more than a
// kernel that also made dx would have to; such a kernel would need room for partial sums.
__global__ void __launch_bounds__(kColumns* kRows)
    backward_weight(const float* dy, const float* x, const float* mean, const float* rstd,
                    float* dweight, float* dbias, std::int64_t R, int C) {
  __shared__ float of_weight[kRows][kColumns];
  __shared__ float of_bias[kRows][kColumns];
  const unsigned row = threadIdx.x / kColumns;
  const unsigned column = threadIdx.x % kColumns;
  const std::int64_t c = std::int64_t{blockIdx.x} * kColumns + column;
  float weight = 0;
  float bias = 0;
  for (std::int64_t r = row; c < C && r < R; r += kRows) {
    const float g = dy[r * C + c];
    weight += g * ((x[r * C + c] - mean[r]) * rstd[r]);
    bias += g;
  }
  of_weight[row][column] = weight;
  of_bias[row][column] = bias;
  __syncthreads();
  if (row > 0 || c >= C) return;
  for (unsigned i = 1; i < kRows; ++i) {
    weight += of_weight[i][column];
    bias += of_bias[i][column];
  }
  if (dweight != nullptr) dweight[c] += weight;
  if (dbias != nullptr) dbias[c] += bias;
}

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
    launch(stream, blocks_for(C, kColumns), kColumns * kRows, backward_weight, a.dy.f32(),
           a.x.f32(), a.mean.f32(), a.rstd.f32(), dweight, dbias, R, C);
  }
  for_type_of(a.weight, [&]<class W>(W) {
    launch(stream, blocks_for(R, 1), threads_for(C), backward_x<W>, a.dy.f32(), a.x.f32(),
           a.weight.data<W>(), a.mean.f32(), a.rstd.f32(), a.dx.f32(), C);
  });
}

}  // namespace nanofsdp::ops::cuda
