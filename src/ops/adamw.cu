#include "ops/adamw.h"

#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

// Each thread updates a pack of n elements. The bits of an element must not depend on where its
// shard was cut, so every element runs the same instructions. The code therefore says which product
// and sum are rounded once (fmaf). Without that, the compiler fuses one product in one kernel and
// the other product in the other kernel. The last bits may differ between the twins.
template <int n>
__global__ void update(AdamWConstants c, const float* grad_scale, std::int64_t packs,
                       Pack<float, n>* params, const Pack<float, n>* grads, Pack<float, n>* ms,
                       Pack<float, n>* vs) {
  const std::int64_t i = global_thread();
  if (i >= packs) return;
  const float scale = grad_scale != nullptr ? *grad_scale : 1;
  Pack<float, n> param = params[i], m = ms[i], v = vs[i];
  const Pack<float, n> grad = grads[i];
  for (int k = 0; k < n; ++k) {
    const float g = grad.values[k] * scale;
    m.values[k] = fmaf(m.values[k], c.beta1, g * c.rest1);
    v.values[k] = fmaf(v.values[k], c.beta2, c.rest2 * g * g);
    const float denominator = sqrtf(v.values[k]) / c.root_correction2 + c.eps;
    param.values[k] = fmaf(param.values[k], c.decay, -(c.step_size * m.values[k] / denominator));
  }
  ms[i] = m;
  vs[i] = v;
  params[i] = param;
}

}  // namespace

void run_on_gpu(Stream& stream, const AdamW& a) {
  const float* const grad_scale = a.grad_scale.empty() ? nullptr : a.grad_scale.f32();
  constexpr int kFour = 4;  // 16 bytes
  const bool packed = a.param.numel() % kFour == 0 && fits_packs(a.param, a.grad, a.m, a.v);
  for_packs<kFour>(packed, [&]<int n>(PackOf<n>) {
    const std::int64_t packs = a.param.numel() / n;
    launch(stream, blocks_for(packs), kThreads, update<n>, AdamWConstants(a), grad_scale, packs,
           a.param.raw(), a.grad.raw(), a.m.raw(), a.v.raw());
  });
}

}  // namespace nanofsdp::ops
