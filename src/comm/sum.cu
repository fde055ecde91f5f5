#include "comm/sum.h"

#include <algorithm>
#include <utility>

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
class Table {
 public:
  ~Table() { nanofsdp::cuda::release(memory_); }

  Many filled(Stream& stream, std::span<const void* const> x) {
    if (bytes_ < x.size_bytes()) {
      stream.synchronize();  // until the last sum has read the memory that is freed here
      bytes_ = 0;            // if there is no new memory, the next call asks again
      nanofsdp::cuda::release(std::exchange(memory_, nullptr));
      memory_ = nanofsdp::cuda::allocate(x.size_bytes());
      bytes_ = x.size_bytes();
    }
    nanofsdp::cuda::copy(stream, memory_, x.data(), x.size_bytes());
    return {static_cast<const void* const*>(memory_)};
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

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

template <class In, class Out, class Addends>
void launch_sum(Stream& stream, const Addends& x, int ranks, const Tensor& out, ReduceOp op) {
  const std::int64_t count = out.numel();
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  // A plain sum is multiplied by 1, which keeps its bits.
  const float factor = op == ReduceOp::sum ? 1.0f : 1.0f / static_cast<float>(ranks);
  nanofsdp::cuda::launch(stream, blocks, kThreads, sum<In, Out, Addends>, x, ranks, out.data<Out>(),
                         count, factor);
}

template <class In, class Out>
void sum_as(Stream& stream, std::span<const void* const> x, const Tensor& out, ReduceOp op) {
  const int ranks = static_cast<int>(x.size());
  if (x.size() > kFewRanks) {
    const Many many = nanofsdp::cuda::kept_with<Table>(stream).filled(stream, x);
    return launch_sum<In, Out>(stream, many, ranks, out, op);
  }
  Few few{};
  std::ranges::copy(x, few.of_rank);
  launch_sum<In, Out>(stream, few, ranks, out, op);
}

}  // namespace

void sum_in_rank_order(Stream& stream, std::span<const void* const> x, DType dtype, Tensor out,
                       ReduceOp op) {
  if (dtype == DType::float32) return sum_as<float, float>(stream, x, out, op);
  if (out.dtype() == dtype) return sum_as<bfloat16, bfloat16>(stream, x, out, op);
  sum_as<bfloat16, float>(stream, x, out, op);
}

}  // namespace nanofsdp::comm::cuda
