#include "ops/copy_chunks.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

__device__ inline void convert(float x, float& y) { y = x; }
__device__ inline void convert(bfloat16 x, bfloat16& y) { y = x; }
__device__ inline void convert(float x, bfloat16& y) { y = to_bfloat16(x); }
__device__ inline void convert(bfloat16 x, float& y) { y = to_float32(x); }

// The chunks of a row or a whole of In, which are converted to Out. Counts packs.
template <class In, class Out, int n>
struct Elements {
  const Pack<In, n>* in;
  std::int64_t stride;
  __device__ Pack<Out, n> operator()(std::int64_t q, std::int64_t i) const {
    const Pack<In, n> x = in[q * stride + i];
    Pack<Out, n> y;
    for (int k = 0; k < n; ++k) convert(x.values[k], y.values[k]);
    return y;
  }
};

// The chunks of a row of messages. A pack lies in one block.
template <class Out, int n>
struct Messages {
  const float8_e4m3* in;
  std::int64_t first, bytes;
  __device__ Pack<Out, n> operator()(std::int64_t q, std::int64_t i) const {
    i = first + i * n;
    const auto* message = reinterpret_cast<const Float8Block*>(in + q * bytes);
    const Float8Block& block = message[i / kFloat8Block];
    const auto x = *reinterpret_cast<const Pack<float8_e4m3, n>*>(block.x + i % kFloat8Block);
    Pack<Out, n> y;
    for (int k = 0; k < n; ++k)
      y.values[k] = narrow_to<Out>(from_float8(x.values[k]) * block.scale);
    return y;
  }
};

// A warp rounds a block of a message.
__global__ void round_blocks(const float* in, float8_e4m3* out, std::int64_t numel,
                             std::int64_t message, std::int64_t bytes, std::int64_t blocks) {
  const std::int64_t warp = global_thread() / kWarp, q = warp / blocks, b = warp % blocks;
  if (q * message >= numel) return;
  const std::int64_t n = min(kFloat8Block, message - b * kFloat8Block);
  in += q * message + b * kFloat8Block;
  Float8Block& block = reinterpret_cast<Float8Block*>(out + q * bytes)[b];
  constexpr int kEach = kFloat8Block / kWarp;
  const int lane = threadIdx.x % kWarp;
  float x[kEach];
  auto largest = __builtin_bit_cast(std::uint32_t, 0x1p-100f);
  for (int k = 0; k < kEach; ++k) {
    const int i = k * kWarp + lane;
    x[k] = i < n ? in[i] : 0;
    largest = max(largest, __builtin_bit_cast(std::uint32_t, x[k]) & 0x7fffffff);
  }
  const float magnitude = __builtin_bit_cast(float, over_warp(largest, Max{}));
  const float factor = 448 / magnitude;
  if (lane == 0) block.scale = magnitude / 448;
  for (int k = 0; k < kEach; ++k) {
    const int i = k * kWarp + lane;
    if (i < n) block.x[i] = to_float8(x[k] * factor);
  }
}

}  // namespace

void run_on_gpu(Stream& stream, const CopyChunks& a) {
  const std::int64_t places = a.first | a.chunk | a.stride | a.whole.numel();
  const std::int64_t numel = a.whole.numel();
  if (a.row.dtype() == DType::float8_e4m3) {
    constexpr int kFour = 4;  // messages are aligned to 4 bytes
    return for_type_of(a.whole, [&]<class Out>(Out) {
      for_packs<kFour>(places % kFour == 0 && fits_packs(a.whole), [&]<int n>(PackOf<n>) {
        rowwise(stream, {numel / n, a.chunk / n, a.chunk / n}, packs_of<Out, n>(a.whole),
                Messages<Out, n>{a.row.data<float8_e4m3>(), a.first, float8_bytes(a.stride)});
      });
    });
  }
  const Tensor row = a.row.slice(a.first, a.row.numel() - a.first);
  const Tensor &in = a.into_row ? a.whole : row, &out = a.into_row ? row : a.whole;
  const std::int64_t in_stride = a.into_row ? a.chunk : a.stride;
  const std::int64_t out_stride = a.into_row ? a.stride : a.chunk;
  for_type_of(in, [&]<class In>(In) {
    for_type_of(out, [&]<class Out>(Out) {
      // Each chunk begins and ends at a pack.
      for_packs<kPack>(places % kPack == 0 && fits_packs(a.row, a.whole), [&]<int n>(PackOf<n>) {
        rowwise(stream, {numel / n, a.chunk / n, out_stride / n}, packs_of<Out, n>(out),
                Elements<In, Out, n>{packs_of<In, n>(in), in_stride / n});
      });
    });
  });
}

void run_on_gpu(Stream& stream, const Cast& a) {
  const std::int64_t n = a.in.numel(), message = std::max<std::int64_t>(1, a.message);
  const std::int64_t blocks = (message + kFloat8Block - 1) / kFloat8Block;
  launch(stream, blocks_for(n / message * blocks * kWarp), kThreads, round_blocks, a.in.f32(),
         a.out.data<float8_e4m3>(), n, message, float8_bytes(message), blocks);
}

}  // namespace nanofsdp::ops
