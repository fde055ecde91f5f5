#pragma once

#include "base/device.h"
#include "base/tensor.h"
#include "ops/gemm.h"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief The one place behind the matrix products of the CUDA operators, which is cuBLASLt.
/// Internal to ops.

/// C = A B or C += A B as `form` and `write` say, the sums in float32, `bias` added to every row.
/// @param a, b both float32, or both bfloat16: then tensor cores multiply
/// @param c float32, or bfloat16 as a and b: then each sum is rounded once
/// @param bias [columns of C], of c's dtype; may be empty
/// @throws UsageError where cuBLASLt cannot be loaded, Error with cuBLAS's words if it refuses
void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              Write write, const Tensor& bias = {});

}  // namespace nanofsdp::ops::cuda
