#include "comm/sum.h"

#include <algorithm>

#include "base/cuda.h"
#include "base/device.cuh"

namespace nanofsdp::comm::cuda {
namespace {

constexpr std::size_t kFewRanks = 64;
constexpr unsigned kThreads = 256;

// The operands of a few ranks, passed by value: every thread can read the arguments of a kernel.
struct Few {
  const void* of_rank[kFewRanks];
};

// The operands of more ranks, in a table in the memory of the GPU.
struct Many {
  const void* const* of_rank;
};

// The table of a stream. The sums of the stream use it one after another.
struct Table : nanofsdp::cuda::Scratch {};

__device__ float load(float x) { return x; }
__device__ float load(bfloat16 x) { return to_float32(x); }
__device__ void store(float& to, float x) { to = x; }
__device__ void store(bfloat16& to, float x) { to = to_bfloat16(x); }

template <class In, class Out, class Addends>
__global__ void sum(Addends x, int ranks, Out* out, std::int64_t count, float factor) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = load(static_cast<const In*>(x.of_rank[0])[i]);
  for (int rank = 1; rank < ranks; ++rank) sum += load(static_cast<const In*>(x.of_rank[rank])[i]);
  store(out[i], sum * factor);
}

template <class In, class Out>
void sum_as(Stream& stream, std::span<const void* const> x, const Tensor& out, ReduceOp op) {
  const int ranks = static_cast<int>(x.size());
  // A plain sum is multiplied by 1, which keeps its bits.
  const float factor = op == ReduceOp::sum ? 1.0f : 1.0f / static_cast<float>(ranks);
  const auto run = [&]<class Addends>(const Addends& addends) {
    const auto blocks = static_cast<unsigned>((out.numel() + kThreads - 1) / kThreads);
    nanofsdp::cuda::launch(stream, blocks, kThreads, sum<In, Out, Addends>, addends, ranks,
                           out.data<Out>(), out.numel(), factor);
  };
  if (x.size() > kFewRanks) {
    auto* const table = nanofsdp::cuda::scratch<Table, const void*>(stream, x.size());
    nanofsdp::cuda::copy(stream, table, x.data(), x.size_bytes());
    return run(Many{table});
  }
  Few few{};
  std::ranges::copy(x, few.of_rank);
  run(few);
}

}  // namespace

void sum_in_rank_order(Stream& stream, std::span<const void* const> x, DType dtype, Tensor out,
                       ReduceOp op) {
  if (dtype == DType::float32) return sum_as<float, float>(stream, x, out, op);
  if (out.dtype() == dtype) return sum_as<bfloat16, bfloat16>(stream, x, out, op);
  sum_as<bfloat16, float>(stream, x, out, op);
}

}  // namespace nanofsdp::comm::cuda
