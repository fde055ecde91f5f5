#include "comm/sum.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/device.cuh"

namespace nanofsdp::comm::cuda {
namespace {

constexpr int kMostRanks = 64;
constexpr unsigned kThreads = 256;

// What each rank contributes, by value: a kernel's arguments are where every thread can read them.
struct Addends {
  const void* of_rank[kMostRanks];
  int ranks;
};

__device__ float load(float x) { return x; }
__device__ float load(bfloat16 x) { return to_float32(x); }
__device__ void store(float& to, float x) { to = x; }
__device__ void store(bfloat16& to, float x) { to = to_bfloat16(x); }

template <class T>
__global__ void sum(Addends x, T* out, std::int64_t count, float factor) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = load(static_cast<const T*>(x.of_rank[0])[i]);
  for (int rank = 1; rank < x.ranks; ++rank) sum += load(static_cast<const T*>(x.of_rank[rank])[i]);
  store(out[i], sum * factor);
}

template <class T>
void launch_sum(Stream& stream, const Addends& x, void* out, std::int64_t count, float factor) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  nanofsdp::cuda::launch(stream, blocks, kThreads, sum<T>, x, static_cast<T*>(out), count, factor);
}

}  // namespace

void sum_in_rank_order(Stream& stream, std::span<const void* const> x, void* out,
                       std::int64_t count, DType dtype, ReduceOp op) {
  NANOFSDP_CHECK(x.size() <= kMostRanks, .what = "sum over ranks that share a GPU",
                 .expected = "at most " + std::to_string(kMostRanks) + " ranks",
                 .got = std::to_string(x.size()));
  Addends addends{.ranks = static_cast<int>(x.size())};
  std::ranges::copy(x, addends.of_rank);
  // A sum is multiplied, too: by 1 it keeps its bits.
  const float factor = op == ReduceOp::sum ? 1.0f : 1.0f / static_cast<float>(x.size());
  if (dtype == DType::bfloat16) {
    return launch_sum<bfloat16>(stream, addends, out, count, factor);
  }
  launch_sum<float>(stream, addends, out, count, factor);
}

}  // namespace nanofsdp::comm::cuda
