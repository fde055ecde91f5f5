#include "comm/sum.h"

#include <algorithm>
#include <array>

#include "base/cuda.h"

namespace nanofsdp::comm {
namespace {

// Elements that are summed at a time. They are so few that the processor fetches the next ones
// meanwhile.
constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kSumGrain = 64 * kBlock;  // the least number of elements for a thread

float load(float x) { return x; }
float load(bfloat16 x) { return to_float32(x); }
void store(float& to, float x) { to = x; }
void store(bfloat16& to, float x) { to = to_bfloat16(x); }

template <class In, class Out>
void sum_as(Stream& stream, std::span<const void* const> x, const Tensor& to, ReduceOp op) {
  Out* const out = to.data<Out>();
  const float scale = 1.0f / static_cast<float>(x.size());
  stream.parallel_for(to.numel(), kSumGrain, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, kBlock> sum;
    for (; begin < end; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, end - begin);
      //! [rank_order]
      const In* first = static_cast<const In*>(x[0]) + begin;
      for (std::int64_t i = 0; i < n; ++i) sum[i] = load(first[i]);
      for (const void* const other : x.subspan(1)) {
        const In* next = static_cast<const In*>(other) + begin;
        for (std::int64_t i = 0; i < n; ++i) sum[i] += load(next[i]);
      }
      if (op == ReduceOp::average) {
        for (std::int64_t i = 0; i < n; ++i) sum[i] *= scale;
      }
      //! [rank_order]
      for (std::int64_t i = 0; i < n; ++i) store(out[begin + i], sum[i]);
    }
  });
}

}  // namespace

void sum_in_rank_order(Stream& stream, std::span<const void* const> x, DType dtype, Tensor out,
                       ReduceOp op) {
  NANOFSDP_RETURN_ON_CUDA(stream.device(), sum_in_rank_order(stream, x, dtype, out, op));
  if (dtype == DType::float32) return sum_as<float, float>(stream, x, out, op);
  if (out.dtype() == dtype) return sum_as<bfloat16, bfloat16>(stream, x, out, op);
  sum_as<bfloat16, float>(stream, x, out, op);
}

}  // namespace nanofsdp::comm
