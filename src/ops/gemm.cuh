#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/device.h"
#include "base/library.h"
#include "base/tensor.h"
#include "ops/gemm.h"

namespace nanofsdp::ops::cuda {

/// @file
/// @brief The only place where CUDA operators multiply matrices. It uses cuBLASLt, and describes
/// products to it. Internal to ops.

/// Computes C = A B or C += A B, as `form` and `write` say. The sums are float32. `bias` is added
/// to every row.
/// @param a, b both float32, or both bfloat16, which tensor cores multiply
/// @param c float32; or bfloat16 like a and b, and then each sum is rounded once
/// @param bias [columns of C], of c's dtype; may be empty
/// @throws UsageError if cuBLASLt cannot be loaded, Error with cuBLAS's text if it refuses
void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              Write write, const Tensor& bias = {});

// The size that cuBLAS recommends for a GPU like the H100.
constexpr std::size_t kWorkspaceBytes = 32 << 20;
// Kernels that cuBLAS is asked for; the fastest for GPT-2's products is among them.
constexpr int kKernels = 8;

// cuBLASLt's functions under their own names. The constructor loads the library.
struct CublasLt {
  Library library{NANOFSDP_CUBLASLT, NANOFSDP_CUBLASLT_FOLDER};

  NANOFSDP_FUNCTION(cublasLtCreate);
  NANOFSDP_FUNCTION(cublasLtDestroy);
  NANOFSDP_FUNCTION(cublasLtGetStatusName);
  NANOFSDP_FUNCTION(cublasLtGetStatusString);
  NANOFSDP_FUNCTION(cublasLtGetVersion);
  NANOFSDP_FUNCTION(cublasLtMatmul);
  NANOFSDP_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  NANOFSDP_FUNCTION(cublasLtMatmulDescCreate);
  NANOFSDP_FUNCTION(cublasLtMatmulDescDestroy);
  NANOFSDP_FUNCTION(cublasLtMatmulDescSetAttribute);
  NANOFSDP_FUNCTION(cublasLtMatmulPreferenceCreate);
  NANOFSDP_FUNCTION(cublasLtMatmulPreferenceDestroy);
  NANOFSDP_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  NANOFSDP_FUNCTION(cublasLtMatrixLayoutCreate);
  NANOFSDP_FUNCTION(cublasLtMatrixLayoutDestroy);
};

// An object that cuBLAS creates and destroys.
template <class Opaque>
using Owned = std::unique_ptr<Opaque, cublasStatus_t (*)(Opaque*)>;

// All properties on which cuBLAS's choice of a kernel depends. C [rows, cols] is made from A and B
// as `form` says.
struct Product {
  Form form;
  DType dtype, result;  // dtype of A and B; dtype of C
  std::int64_t rows, cols, depth;
  bool bias;
  bool aligned;  // whether every operand is aligned to 16 bytes, as in the flat layout of training

  auto operator<=>(const Product&) const = default;

  std::string str() const {
    static constexpr const char* kForms[] = {"A B", "A B^T", "A^T B"};
    return std::string("matmul ") + kForms[static_cast<int>(form)] + " = [" + std::to_string(rows) +
           ", " + std::to_string(cols) + "] over " + std::to_string(depth) +
           (bias ? ", and bias" : "") + (aligned ? "" : ", unaligned") + ", of " +
           std::string(name_of(dtype)) + " to " + std::string(name_of(result));
  }
};

// The description of a product for cuBLAS, and the kernels that its heuristics name. They expect
// the first kernel to be the fastest. `taken` is the kernel in use.
struct Plan {
  Owned<cublasLtMatmulDescOpaque_t> operation;
  Owned<cublasLtMatrixLayoutOpaque_t> b, a, c;
  cublasLtMatmulHeuristicResult_t kernels[kKernels]{};
  int count = 0;
  int taken = 0;
};

// cuBLAS stores matrices column by column, so it sees each of our matrices transposed. It is
// therefore asked for C^T = B^T A^T: the operands change places, and every matrix stays in its
// memory.
class PlanMaker {
 public:
  PlanMaker(const CublasLt& lt, const Product& product) : lt_(lt), product_(product) {}

  Plan make(cublasLtHandle_t handle, const Tensor& a, const Tensor& b, const Tensor& c,
            const void* bias) const {
    Plan plan{operation(), layout(b), layout(a), layout(c)};
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, product_.form == Form::nt ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, product_.form == Form::tn ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias != nullptr) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    find_kernels(handle, plan);
    return plan;
  }

  template <class T>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(
        lt_.cublasLtMatmulDescSetAttribute(plan.operation.get(), attribute, &value, sizeof value));
  }

  // @throws Error with cuBLAS's text if it refuses the product
  void check(cublasStatus_t status) const {
    NANOFSDP_CHECK(status == CUBLAS_STATUS_SUCCESS, .what = product_.str(),
                   .expected = "success from cuBLAS",
                   .got = std::string(lt_.cublasLtGetStatusString(status)) + " (" +
                          lt_.cublasLtGetStatusName(status) + ")");
  }

 private:
  Owned<cublasLtMatmulDescOpaque_t> operation() const {
    cublasLtMatmulDesc_t made = nullptr;
    check(lt_.cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    return {made, lt_.cublasLtMatmulDescDestroy};
  }

  Owned<cublasLtMatrixLayoutOpaque_t> layout(const Tensor& x) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(lt_.cublasLtMatrixLayoutCreate(
        &made, x.dtype() == DType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F,
        static_cast<std::uint64_t>(x.dim(1)), static_cast<std::uint64_t>(x.dim(0)), x.dim(1)));
    return {made, lt_.cublasLtMatrixLayoutDestroy};
  }

  void find_kernels(cublasLtHandle_t handle, Plan& plan) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(lt_.cublasLtMatmulPreferenceCreate(&made));
    const Owned<cublasLtMatmulPreferenceOpaque_t> wish{made, lt_.cublasLtMatmulPreferenceDestroy};
    const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(lt_.cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
    };
    want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    for (const auto alignment :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      want(alignment, static_cast<std::uint32_t>(product_.aligned ? 16 : size_of(product_.dtype)));
    }
    check(lt_.cublasLtMatmulAlgoGetHeuristic(handle, plan.operation.get(), plan.b.get(),
                                             plan.a.get(), plan.c.get(), plan.c.get(), made,
                                             kKernels, plan.kernels, &plan.count));
    check(plan.count > 0 ? plan.kernels[0].state : CUBLAS_STATUS_NOT_SUPPORTED);
  }

  const CublasLt& lt_;
  const Product& product_;
};

}  // namespace nanofsdp::ops::cuda
