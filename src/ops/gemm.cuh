#pragma once

#include "base/device.h"
#include "base/tensor.h"
#include "ops/gemm.h"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief The one place behind the matrix products of the CUDA operators, which is cuBLASLt.
/// Internal to ops.

/// C = A B or C += A B as `form` and `write` say, `bias` [C's columns] added to every row if there
/// is one.
/// @throws UsageError where cuBLASLt cannot be loaded, Error with cuBLAS's words if it refuses
void multiply(Stream& stream, Form form, const Matrix& a, const Matrix& b, const Matrix& c,
              Write write, const float* bias = nullptr);

}  // namespace nanofsdp::ops::cuda
