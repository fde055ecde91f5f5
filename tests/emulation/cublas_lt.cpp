#include <algorithm>
#include <bit>
#include <cstring>

#include "base/dtype.h"
#include "cublasLt.h"

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (emulation::fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
  return *handle = nullptr, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "emulated refusal"; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                               : "CUBLAS_STATUS_NOT_SUPPORTED";
}

namespace {

template <class Opaque>
cublasStatus_t make(Opaque** made, const Opaque& value) {
  if (emulation::fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++emulation::alive;
  return *made = new Opaque(value), CUBLAS_STATUS_SUCCESS;
}
template <class Opaque>
cublasStatus_t destroy(Opaque* made) {
  --emulation::alive;
  return delete made, emulation::fails() ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t,
                                        cudaDataType) {
  return make(operation, {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy(operation);
}

namespace {

template <class T>
cublasStatus_t take(T& field, const void* value, std::size_t bytes) {
  if (bytes != sizeof field || emulation::fails()) return CUBLAS_STATUS_INVALID_VALUE;
  return std::memcpy(&field, value, bytes), CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(operation->of_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(operation->of_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(operation->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return make(layout, {type, rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  return make(wish, {{256, 256, 256, 256}, 0});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  return destroy(wish);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return take(wish->workspace, value, bytes);
  }
  return take(wish->alignment[attribute], value, bytes);
}

namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

std::uint64_t rows(cublasOperation_t op, const Layout& x) { return op ? x.cols : x.rows; }
std::uint64_t cols(cublasOperation_t op, const Layout& x) { return op ? x.rows : x.cols; }

bool is_matrix(const Layout& x) {
  return x.rows > 0 && x.cols > 0 && x.ld >= static_cast<std::int64_t>(x.rows);
}

bool fits(const cublasLtMatmulDescOpaque_t& op, const Layout& a, const Layout& b, const Layout& c) {
  const bool bias_is_there = op.epilogue == CUBLASLT_EPILOGUE_DEFAULT || op.bias != nullptr;
  return is_matrix(a) && is_matrix(b) && is_matrix(c) && bias_is_there && a.type == b.type &&
         (c.type == CUDA_R_32F || c.type == a.type) && cols(op.of_a, a) == rows(op.of_b, b) &&
         rows(op.of_a, a) == c.rows && cols(op.of_b, b) == c.cols;
}

struct Matrix {
  const void* elements;
  Layout layout;
};

float element(const void* elements, cudaDataType type, std::uint64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(elements)[i];
  const auto bits = std::uint32_t{static_cast<const std::uint16_t*>(elements)[i]};
  return std::bit_cast<float>(bits << 16);
}

// Element (row, col) after `op`, with matrices stored column by column.
float at(const Matrix& x, cublasOperation_t op, std::uint64_t row, std::uint64_t col) {
  const auto ld = static_cast<std::uint64_t>(x.layout.ld);
  return element(x.elements, x.layout.type, op ? col + row * ld : row + col * ld);
}

struct Product {
  cublasLtMatmulDescOpaque_t op;
  Matrix a, b, c;
  float scale, keep;
  int kernel;
};

constexpr int kKernels = 3;

// The sum of all products: in double, or in float32 from one end, or from the other.
float sum_of(const Product& p, std::uint64_t row, std::uint64_t col, std::uint64_t depth) {
  double sum = 0;
  for (std::uint64_t i = 0; i < depth; ++i) {
    const std::uint64_t k = p.kernel == 2 ? depth - 1 - i : i;
    sum += static_cast<double>(at(p.a, p.op.of_a, row, k)) * at(p.b, p.op.of_b, k, col);
    if (p.kernel > 0) sum = static_cast<float>(sum);
  }
  return static_cast<float>(p.scale * sum);
}

void multiply(const Product& p, void* out, const Layout& of_out) {
  const std::uint64_t depth = cols(p.op.of_a, p.a.layout);
  const bool fast = (of_out.rows + of_out.cols) % kKernels == static_cast<std::uint64_t>(p.kernel);
  emulation::spend(fast ? 1 : 2);
  for (std::uint64_t col = 0; col < of_out.cols; ++col) {
    for (std::uint64_t row = 0; row < of_out.rows; ++row) {
      float result = sum_of(p, row, col, depth);
      if (p.keep != 0) result += p.keep * at(p.c, CUBLAS_OP_N, row, col);
      if (p.op.epilogue == CUBLASLT_EPILOGUE_BIAS) result += element(p.op.bias, of_out.type, row);
      const std::uint64_t i = row + col * static_cast<std::uint64_t>(of_out.ld);
      if (of_out.type == CUDA_R_32F) {
        static_cast<float*>(out)[i] = result;
      } else {
        static_cast<nanofsdp::bfloat16*>(out)[i] = nanofsdp::to_bfloat16(result);
      }
    }
  }
}

bool is_aligned(const void* memory, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(memory) % to == 0;
}

}  // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t* result, int* found) {
  if (emulation::fails() || !fits(*operation, *a, *b, *c)) return CUBLAS_STATUS_INVALID_VALUE;
  *found = std::min(wanted, kKernels);
  for (int k = 0; k < *found; ++k) {
    std::memcpy(result[k].algo.alignment, wish->alignment, sizeof wish->alignment);
    result[k].algo.kernel = k;
    result[k].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t of_a, const void* b,
                              cublasLtMatrixLayout_t of_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t of_c, void* d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  if (emulation::fails()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& promised = algorithm->alignment;
  if (!fits(*operation, *of_a, *of_b, *of_d) || !is_aligned(a, promised[0]) ||
      !is_aligned(b, promised[1]) || !is_aligned(c, promised[2]) || !is_aligned(d, promised[3])) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  // The descriptions are copied now, and the operands are read when the product runs.
  const Product product{*operation, {a, *of_a}, {b, *of_b},       {c, *of_c},
                        scale,      keep,       algorithm->kernel};
  emulation::enqueue(
      stream, [product, out = d, of_out = *of_d] { return multiply(product, out, of_out), true; });
  return CUBLAS_STATUS_SUCCESS;
}
