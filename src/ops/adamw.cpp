#include "ops/adamw.h"

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// This is a plain loop and does not use Eigen. Eigen approximates sqrt for whole vectors and
// computes it exactly for the rest, so the bits of a parameter would depend on where its shard was
// cut. This sqrt is exact, and compilers vectorise it under -fno-math-errno.
void update(const AdamWConstants& k, float grad_scale, std::int64_t n, float* __restrict param,
            const float* __restrict grad, float* __restrict m, float* __restrict v) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * grad_scale;
    m[i] = m[i] * k.beta1 + g * k.rest1;
    v[i] = v[i] * k.beta2 + k.rest2 * g * g;
    const float denominator = std::sqrt(v[i]) / k.root_correction2 + k.eps;
    param[i] = param[i] * k.decay - k.step_size * m[i] / denominator;
  }
}

}  // namespace

void adamw(Stream& stream, const AdamW& a) {
  const Require require(stream);
  const std::int64_t n = a.param.numel();
  require.numel("adamw: param", a.param, n);
  require.numel("adamw: grad", a.grad, n);
  require.numel("adamw: m", a.m, n);
  require.numel("adamw: v", a.v, n);
  if (!a.grad_scale.empty()) require("adamw: grad_scale", a.grad_scale, {1});
  NANOFSDP_CHECK(a.step >= 1 && a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1,
                 .what = "adamw: step and betas", .expected = "at least 1, and in [0, 1)",
                 .got = fmt::format("{}, {} and {}", a.step, a.beta1, a.beta2));
  NANOFSDP_CHECK(a.lr >= 0 && a.eps >= 0 && a.weight_decay >= 0, .what = "adamw: lr, eps and decay",
                 .expected = "0 or more",
                 .got = fmt::format("{}, {} and {}", a.lr, a.eps, a.weight_decay));
  enqueue(stream, a, [&stream, a, n] {
    const AdamWConstants constants(a);
    const float grad_scale = a.grad_scale.empty() ? 1.0f : *a.grad_scale.f32();
    stream.parallel_for(n, grain_of(), [&](std::int64_t begin, std::int64_t end) {
      update(constants, grad_scale, end - begin, a.param.f32() + begin, a.grad.f32() + begin,
             a.m.f32() + begin, a.v.f32() + begin);
    });
  });
}

}  // namespace nanofsdp::ops
