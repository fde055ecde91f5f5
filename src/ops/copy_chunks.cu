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

template <class In, class Out, int n>
struct Converted {
  const Pack<In, n>* in;
  __device__ Pack<Out, n> operator()(std::int64_t i) const {
    const Pack<In, n> x = in[i];
    Pack<Out, n> y;
    for (int k = 0; k < n; ++k) convert(x.values[k], y.values[k]);
    return y;
  }
};

// Sizes and strides, in packs.
struct Extents {
  std::int64_t numel, chunk, in_stride, out_stride;
};

// Blocks along x share a chunk, and blocks along y share the chunks. So no thread needs a division
// to find its element.
template <class In, class Out, int n>
__global__ void copy_each(const Pack<In, n>* in, Pack<Out, n>* out, Extents a) {
  const std::int64_t begin = blockIdx.x * kStretch;
  for (std::int64_t q = blockIdx.y; q * a.chunk + begin < a.numel; q += gridDim.y) {
    const std::int64_t end = min(a.chunk, a.numel - q * a.chunk);
    make_each(begin, end, out + q * a.out_stride, Converted<In, Out, n>{in + q * a.in_stride});
  }
}

template <class In, class Out, int n>
void copy_packs(Stream& stream, const CopyChunks& a) {
  // Enough blocks to fill any GPU. If there are more chunks, each block takes several.
  constexpr std::int64_t kChunksAtOnce = 1024;
  const Extents packs{a.numel / n, a.chunk / n, a.in_stride / n, a.out_stride / n};
  const std::int64_t chunks = (a.numel + a.chunk - 1) / a.chunk;
  const dim3 blocks(blocks_for(std::min(packs.chunk, packs.numel), kStretch),
                    static_cast<unsigned>(std::min(chunks, kChunksAtOnce)));
  launch(stream, blocks, kThreads, copy_each<In, Out, n>,
         static_cast<const Pack<In, n>*>(a.in.raw()), static_cast<Pack<Out, n>*>(a.out.raw()),
         packs);
}

}  // namespace

void run_on_gpu(Stream& stream, const CopyChunks& a) {
  const bool packed = (a.numel | a.chunk | a.in_stride | a.out_stride) % kPack == 0 &&
                      fits_packs(a.in, a.out);  // each chunk begins and ends at a pack
  for_type_of(a.in, [&]<class In>(In) {
    for_type_of(a.out, [&]<class Out>(Out) {
      packed ? copy_packs<In, Out, kPack>(stream, a) : copy_packs<In, Out, 1>(stream, a);
    });
  });
}

}  // namespace nanofsdp::ops
