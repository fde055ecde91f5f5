#include "ops/copy_chunks.h"

#include <algorithm>

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
  struct Converted {
    const Pack<In, n>* in;
    __device__ Pack<Out, n> operator()(std::int64_t i) const {
      const Pack<In, n> x = in[i];
      Pack<Out, n> y;
      for (int k = 0; k < n; ++k) convert(x.values[k], y.values[k]);
      return y;
    }
  };
  __device__ Converted chunk(std::int64_t q) const { return {in + q * stride}; }
};

// The chunks of a row of messages. A pack lies in one block.
template <class Out, int n>
struct Messages {
  const float8_e4m3* in;
  std::int64_t first, bytes;
  struct Widened {
    const Float8Block* message;
    std::int64_t first;
    __device__ Pack<Out, n> operator()(std::int64_t i) const {
      i = first + i * n;
      const Float8Block& block = message[i / kFloat8Block];
      const auto x = *reinterpret_cast<const Pack<float8_e4m3, n>*>(block.x + i % kFloat8Block);
      Pack<Out, n> y;
      for (int k = 0; k < n; ++k)
        y.values[k] = narrow_to<Out>(from_float8(x.values[k]) * block.scale);
      return y;
    }
  };
  __device__ Widened chunk(std::int64_t q) const {
    return {reinterpret_cast<const Float8Block*>(in + q * bytes), first};
  }
};

// Sizes in packs.
struct Extents {
  std::int64_t numel, chunk, out_stride;
};

// Blocks along x share a chunk, and blocks along y share the chunks. So no thread needs a division
// to find its element.
template <class In, class Out>
__global__ void copy_each(In in, Out* out, Extents a) {
  const std::int64_t begin = blockIdx.x * kStretch;
  for (std::int64_t q = blockIdx.y; q * a.chunk + begin < a.numel; q += gridDim.y) {
    const std::int64_t end = min(a.chunk, a.numel - q * a.chunk);
    make_each(begin, end, out + q * a.out_stride, in.chunk(q));
  }
}

template <class In, class Out>
void launch_copy(Stream& stream, const In& in, Out* out, const Extents& a) {
  // Enough blocks to fill any GPU. If there are more chunks, each block takes several.
  constexpr std::int64_t kChunksAtOnce = 1024;
  const std::int64_t chunks = (a.numel + a.chunk - 1) / a.chunk;
  const dim3 blocks(blocks_for(std::min(a.chunk, a.numel), kStretch),
                    static_cast<unsigned>(std::min(chunks, kChunksAtOnce)));
  launch(stream, blocks, kThreads, copy_each<In, Out>, in, out, a);
}

template <class In, class Out, int n>
void copy_packs(Stream& stream, const CopyChunks& a) {
  const std::int64_t numel = a.whole.numel();
  const auto run = [&](const void* in, std::int64_t in_stride, void* out, std::int64_t out_stride) {
    launch_copy(stream, Elements<In, Out, n>{static_cast<const Pack<In, n>*>(in), in_stride / n},
                static_cast<Pack<Out, n>*>(out), {numel / n, a.chunk / n, out_stride / n});
  };
  void* const row = a.row.slice(a.first, a.row.numel() - a.first).raw();
  a.into_row ? run(a.whole.raw(), a.chunk, row, a.stride)
             : run(row, a.stride, a.whole.raw(), a.chunk);
}

template <class Out, int n>
void widen_packs(Stream& stream, const CopyChunks& a) {
  const Messages<Out, n> in{a.row.data<float8_e4m3>(), a.first, float8_bytes(a.stride)};
  launch_copy(stream, in, static_cast<Pack<Out, n>*>(a.whole.raw()),
              {a.whole.numel() / n, a.chunk / n, a.chunk / n});
}

struct Larger {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return max(a, b); }
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
  const float magnitude = __builtin_bit_cast(float, over_warp(largest, Larger{}));
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
  if (a.row.dtype() == DType::float8_e4m3) {
    constexpr int kFour = 4;  // messages are aligned to 4 bytes
    const bool packed = places % kFour == 0 && fits_packs(a.whole);
    return for_type_of(a.whole, [&]<class Out>(Out) {
      packed ? widen_packs<Out, kFour>(stream, a) : widen_packs<Out, 1>(stream, a);
    });
  }
  // Each chunk begins and ends at a pack.
  const bool packed = places % kPack == 0 && fits_packs(a.row, a.whole);
  for_type_of(a.into_row ? a.whole : a.row, [&]<class In>(In) {
    for_type_of(a.into_row ? a.row : a.whole, [&]<class Out>(Out) {
      packed ? copy_packs<In, Out, kPack>(stream, a) : copy_packs<In, Out, 1>(stream, a);
    });
  });
}

void run_on_gpu(Stream& stream, const Cast& a) {
  const std::int64_t n = a.in.numel(), blocks = (a.message + kFloat8Block - 1) / kFloat8Block;
  launch(stream, blocks_for(n / a.message * blocks * kWarp), kThreads, round_blocks, a.in.f32(),
         a.out.data<float8_e4m3>(), n, a.message, float8_bytes(a.message), blocks);
}

}  // namespace nanofsdp::ops
