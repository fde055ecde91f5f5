#pragma once

#include <cmath>
#include <cstdint>

#include "ops/adamw.h"

namespace nanofsdp::ops {

/// @file
/// @brief The numbers that all elements of one AdamW step share, for both twins. Internal to ops.

/// The constants. As in PyTorch, they are computed in double, and rounded once when they are
/// combined with a tensor.
struct AdamWConstants {
  explicit AdamWConstants(const AdamW& a)
      : decay(static_cast<float>(1 - a.lr * a.weight_decay)),
        beta1(static_cast<float>(a.beta1)),
        rest1(static_cast<float>(1 - a.beta1)),
        beta2(static_cast<float>(a.beta2)),
        rest2(static_cast<float>(1 - a.beta2)),
        step_size(static_cast<float>(a.lr / correction(a.beta1, a.step))),
        root_correction2(static_cast<float>(std::sqrt(correction(a.beta2, a.step)))),
        eps(static_cast<float>(a.eps)) {}

  static double correction(double beta, std::int64_t step) {
    return 1 - std::pow(beta, static_cast<double>(step));
  }

  float decay, beta1, rest1, beta2, rest2, step_size, root_correction2, eps;
};

}  // namespace nanofsdp::ops
