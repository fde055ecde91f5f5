#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "base/device.cuh"
#include "ops/attention.h"
#include "ops/cross_entropy.h"

// Measures attention of bfloat16 and the loss on a GPU, in milliseconds, and whether two runs give
// the same bits. It takes half a minute: build/gpu/tests/gpu/times_gpu

namespace nanofsdp::testing {
namespace {

constexpr int kRuns = 20;

class Gpu {
 public:
  Gpu() : stream_(make_compute_stream(Device::cuda, 1)) {
    for (cudaEvent_t& event : events_) cuda::check(cudaEventCreate(&event), "an event");
  }
  ~Gpu() {
    for (void* memory : buffers_) cudaFree(memory);
  }

  // A tensor of numbers that look random, or of zeros.
  Tensor tensor(Shape shape, DType dtype, float scale) {
    const auto n = static_cast<std::size_t>(shape.numel());
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, n * size_of(dtype)), "memory of the GPU");
    buffers_.push_back(memory);
    if (dtype == DType::bfloat16) {
      std::vector<bfloat16> values(n);
      std::uint32_t word = 1337;
      for (bfloat16& x : values) {
        word = word * 1664525 + 1013904223;
        x = to_bfloat16(scale * (static_cast<float>(word >> 8) * 0x1p-23f - 1));
      }
      cuda::check(cudaMemcpy(memory, values.data(), n * 2, cudaMemcpyDefault), "a copy");
    } else {
      cuda::check(cudaMemset(memory, 0, n * size_of(dtype)), "zeros");
    }
    return Tensor(memory, shape, dtype, Device::cuda);
  }

  double median_ms(const std::function<void(Stream&)>& call) {
    std::vector<float> times;
    for (int run = -3; run < kRuns; ++run) {
      cudaEventRecord(events_[0], cuda::native(*stream_));
      call(*stream_);
      cudaEventRecord(events_[1], cuda::native(*stream_));
      stream_->synchronize();
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "a time");
      if (run >= 0) times.push_back(ms);
    }
    std::ranges::sort(times);
    return times[kRuns / 2];
  }

  std::vector<unsigned char> bytes_of(const Tensor& x) {
    stream_->synchronize();
    std::vector<unsigned char> bytes(x.bytes());
    cuda::check(cudaMemcpy(bytes.data(), x.raw(), x.bytes(), cudaMemcpyDefault), "a copy");
    return bytes;
  }
  // Waits until the fill is done, because the stream does not wait for the default stream.
  void poison(const Tensor& x) {
    cuda::check(cudaMemset(x.raw(), 0xff, x.bytes()), "NaN");
    cuda::check(cudaDeviceSynchronize(), "NaN");
  }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Stream> stream_;
  cudaEvent_t events_[2] = {};
  std::vector<void*> buffers_;
};

struct Sizes {
  std::int64_t B, T, D;
  int H, H_kv;
};

bool attention(const Sizes& s, float dropout) {
  Gpu gpu;
  const std::int64_t C = s.H * s.D, row = C + 2 * s.H_kv * s.D, first_v = C + s.H_kv * s.D;
  const Tensor qkv = gpu.tensor({s.B, s.T, row}, DType::bfloat16, 2);
  const Tensor dqkv = gpu.tensor({s.B, s.T, row}, DType::bfloat16, 1);
  const Tensor y = gpu.tensor({s.B, s.T, C}, DType::bfloat16, 1);
  const Tensor dy = gpu.tensor({s.B, s.T, C}, DType::bfloat16, 1);
  const Tensor lse = gpu.tensor({s.B, s.H, s.T}, DType::float32, 0);
  const Tensor scratch = gpu.tensor({ops::attention_scratch_numel(s.T, 1)}, DType::float32, 0);
  const ops::Heads q{qkv, 0, s.H}, k{qkv, C, s.H_kv}, v{qkv, first_v, s.H_kv};
  const ops::Heads dq{dqkv, 0, s.H}, dk{dqkv, C, s.H_kv}, dv{dqkv, first_v, s.H_kv};
  const ops::AttentionForward forward{q, k, v, y, lse, scratch, dropout};
  const ops::AttentionBackward backward{dy, q, k, v, y, lse, dq, dk, dv, scratch, dropout};
  const auto both = [&] {
    gpu.poison(y), gpu.poison(dqkv), gpu.poison(lse);
    ops::attention(gpu.stream(), forward);
    ops::attention(gpu.stream(), backward);
    return std::tuple(gpu.bytes_of(y), gpu.bytes_of(dqkv), gpu.bytes_of(lse));
  };
  const bool same = both() == both();
  const double one = gpu.median_ms([&](Stream& stream) { ops::attention(stream, forward); });
  const double two = gpu.median_ms([&](Stream& stream) { ops::attention(stream, backward); });
  const double products = 1e-9 * ops::cost(forward).attention;
  std::printf(
      "B%ld H%d/%d T%ld D%ld dropout %.1f: forward %.3f ms, %.0f TFLOP/s; backward %.3f ms, "
      "%.0f TFLOP/s; %s\n",
      long{s.B}, s.H, s.H_kv, long{s.T}, long{s.D}, dropout, one, products / one, two,
      2.5 * products / two, same ? "same bits twice" : "OTHER BITS THE SECOND TIME");
  return same;
}

void cross_entropy(std::int64_t N, std::int64_t V) {
  Gpu gpu;
  const Tensor logits = gpu.tensor({N, V}, DType::bfloat16, 4);
  const Tensor target = gpu.tensor({N}, DType::int32, 0), loss = gpu.tensor({N}, DType::float32, 0);
  const Tensor lse = gpu.tensor({N}, DType::float32, 0);
  const ops::CrossEntropy a{{logits, target, loss, lse, {}}, 1};
  const double ms = gpu.median_ms([&](Stream& stream) { ops::cross_entropy(stream, a); });
  std::printf("cross entropy, loss and gradient, %ld rows of %ld: %.3f ms, %.0f GB/s\n", long{N},
              long{V}, ms, 1e-6 * (ops::cost(a).read + ops::cost(a).written) / ms);
}

}  // namespace
}  // namespace nanofsdp::testing

int main() {
  using namespace nanofsdp::testing;
  try {
    nanofsdp::use_device(nanofsdp::Device::cuda, 0);
  } catch (const std::exception& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  bool same = true;
  for (const Sizes& s : {Sizes{64, 1024, 64, 12, 12}, Sizes{8, 4096, 64, 16, 16},
                         Sizes{16, 2048, 128, 16, 16}, Sizes{16, 1024, 64, 12, 4}}) {
    same = attention(s, 0) && same;
  }
  same = attention({64, 1024, 64, 12, 12}, 0.1f) && same;
  cross_entropy(8192, 50304);
  return same ? 0 : 1;
}
