#include "ops/matmul.h"

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/cuda.h"
#include "ops/gemm.h"
#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = 32 << 20;  // what cuBLAS asks for on a GPU like the H100

// All that cuBLAS's choice of a kernel depends on. C [rows, cols] from A and B as `form` has them.
struct Product {
  Form form;
  std::int64_t rows, cols, depth;
  bool bias;
  bool aligned;  // every operand to 16 bytes, as the flat layout of training has them

  auto operator<=>(const Product&) const = default;

  std::string str() const {
    static constexpr const char* kForms[] = {"A B", "A B^T", "A^T B"};
    return std::string("matmul ") + kForms[static_cast<int>(form)] + " = [" + std::to_string(rows) +
           ", " + std::to_string(cols) + "] over " + std::to_string(depth) +
           (bias ? ", and bias" : "");
  }
};

void check(cublasStatus_t status, const Product& product) {
  NANOFSDP_CHECK(status == CUBLAS_STATUS_SUCCESS, .what = product.str(),
                 .expected = "success from cuBLAS",
                 .got = std::string(cublasLtGetStatusString(status)) + " (" +
                        cublasLtGetStatusName(status) + ")");
}

// A product as cuBLAS wants it described, and the kernel that it has chosen.
struct Plan {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t b{}, a{}, c{};
  cublasLtMatmulAlgo_t algorithm{};
};

// cuBLAS counts columns first: where we have a matrix it sees the transposed one. So it is asked
// for C^T = B^T A^T, with the operands the other way round and every matrix where and as it is.
class PlanMaker {
 public:
  explicit PlanMaker(const Product& product) : product_(product) {}

  Plan make(cublasLtHandle_t handle, const Matrix& a, const Matrix& b, const Matrix& c,
            const float* bias) const {
    Plan plan;
    check(cublasLtMatmulDescInit(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), product_);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, product_.form == Form::nt ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, product_.form == Form::tn ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias != nullptr) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    lay_out(plan.b, b);
    lay_out(plan.a, a);
    lay_out(plan.c, c);
    plan.algorithm = choose(handle, plan);
    return plan;
  }

 private:
  template <class T>
  void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(cublasLtMatmulDescSetAttribute(&plan.operation, attribute, &value, sizeof value),
          product_);
  }

  void lay_out(cublasLtMatrixLayoutOpaque_t& layout, const Matrix& matrix) const {
    check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, static_cast<std::uint64_t>(matrix.cols),
                                   static_cast<std::uint64_t>(matrix.rows), matrix.stride),
          product_);
  }

  cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, Plan& plan) const {
    cublasLtMatmulPreferenceOpaque_t wish{};
    const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&wish, attribute, &value, sizeof value), product_);
    };
    check(cublasLtMatmulPreferenceInit(&wish), product_);
    want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    for (const auto alignment :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      want(alignment, std::uint32_t{product_.aligned ? 16u : 4u});
    }
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.b, &plan.a, &plan.c,
                                         &plan.c, &wish, 1, &best, &found),
          product_);
    check(found > 0 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED, product_);
    return best.algo;
  }

  const Product& product_;
};

bool is_aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; }

// cuBLAS for one stream: its products follow each other, so they can share a workspace.
class Blas {
 public:
  Blas() {
    NANOFSDP_CHECK(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS, .what = "matmul on a GPU",
                   .expected = "a handle of cuBLAS", .got = "none");
  }
  ~Blas() { cublasLtDestroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // C = A B or C += A B, `bias` added to every row.
  void multiply(Stream& stream, Form form, const Matrix& a, const Matrix& b, const Matrix& c,
                Write write, const float* bias = nullptr) {
    const Product product{.form = form,
                          .rows = c.rows,
                          .cols = c.cols,
                          .depth = form == Form::tn ? a.rows : a.cols,
                          .bias = bias != nullptr,
                          .aligned = is_aligned(a.data) && is_aligned(b.data) &&
                                     is_aligned(c.data) && is_aligned(bias)};
    auto known = plans_.find(product);
    if (known == plans_.end()) {
      known = plans_.emplace(product, PlanMaker(product).make(handle_, a, b, c, bias)).first;
    }
    Plan& plan = known->second;
    if (bias != nullptr) {
      check(cublasLtMatmulDescSetAttribute(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &bias, sizeof bias),
            product);
    }
    const float one = 1, keep = write == Write::add ? 1 : 0;
    check(cublasLtMatmul(handle_, &plan.operation, &one, b.data, &plan.b, a.data, &plan.a, &keep,
                         c.data, &plan.c, c.data, &plan.c, &plan.algorithm, workspace_.get(),
                         kWorkspaceBytes, nanofsdp::cuda::native(stream)),
          product);
  }

 private:
  using Memory = std::unique_ptr<void, void (*)(void*) noexcept>;

  cublasLtHandle_t handle_ = nullptr;
  Memory workspace_{nanofsdp::cuda::allocate(kWorkspaceBytes), nanofsdp::cuda::release};
  std::map<Product, Plan> plans_;
};

Blas& blas_of(Stream& stream) { return nanofsdp::cuda::kept_with<Blas>(stream); }

// A block sums eight neighbouring columns: of each row they are one sector of memory, so nothing is
// read in vain. Its rows of threads take turns at the rows.
constexpr unsigned kColumns = 8;
constexpr unsigned kTurns = 64;

__global__ void add_sums_of_columns(const float* x, std::int64_t rows, std::int64_t cols,
                                    float* sums) {
  __shared__ float parts[kTurns][kColumns];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0;
  if (col < cols) {
    for (std::int64_t row = threadIdx.y; row < rows; row += kTurns) sum += x[row * cols + col];
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= cols) return;
  for (unsigned turn = 1; turn < kTurns; ++turn) sum += parts[turn][threadIdx.x];
  sums[col] += sum;
}

}  // namespace

void matmul(Stream& stream, const MatmulForward& a) {
  if (a.y.empty()) return;
  blas_of(stream).multiply(stream, Form::nt, matrix(a.x), matrix(a.weight), matrix(a.y),
                           Write::assign, a.bias.empty() ? nullptr : a.bias.f32());
}

void matmul(Stream& stream, const MatmulBackward& a) {
  if (a.dy.empty()) return;
  const Matrix dy = matrix(a.dy);
  if (!a.dx.empty()) {
    blas_of(stream).multiply(stream, Form::nn, dy, matrix(a.weight), matrix(a.dx), Write::assign);
  }
  if (!a.dweight.empty()) {
    blas_of(stream).multiply(stream, Form::tn, dy, matrix(a.x), matrix(a.dweight), Write::add);
  }
  // cuBLAS could sum dy beside the product, but writes such sums, where dbias is added to.
  if (!a.dbias.empty()) {
    launch(stream, blocks_for(dy.cols, kColumns), dim3(kColumns, kTurns), add_sums_of_columns,
           dy.data, dy.rows, dy.cols, a.dbias.f32());
  }
}

}  // namespace nanofsdp::ops::cuda
