#include "ops/adamw.h"

#include "ops/adamw_constants.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

// One element a thread. Every element runs the same instructions wherever its shard was cut: that
// is promised to the bit. The operations are those of adamw.cpp in the same order, but each
// compiler may melt a product and a sum into one rounding, so between the twins the last bits may
// differ.
__global__ void update(AdamWConstants k, const float* grad_scale, std::int64_t n, float* param,
                       const float* grad, float* m, float* v) {
  const std::int64_t i = global_thread();
  if (i >= n) return;
  const float g = grad[i] * (grad_scale != nullptr ? *grad_scale : 1);
  const float new_m = m[i] * k.beta1 + g * k.rest1;
  const float new_v = v[i] * k.beta2 + k.rest2 * g * g;
  const float denominator = sqrtf(new_v) / k.root_correction2 + k.eps;
  const float new_param = param[i] * k.decay - k.step_size * new_m / denominator;
  m[i] = new_m;
  v[i] = new_v;
  param[i] = new_param;
}

}  // namespace

void adamw(Stream& stream, const AdamW& a) {
  const std::int64_t n = a.param.numel();
  const float* const grad_scale = a.grad_scale.empty() ? nullptr : a.grad_scale.f32();
  launch(stream, blocks_for(n), kThreads, update, AdamWConstants(a), grad_scale, n, a.param.f32(),
         a.grad.f32(), a.m.f32(), a.v.f32());
}

}  // namespace nanofsdp::ops::cuda
