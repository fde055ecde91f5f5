#include "ops/gemm.cuh"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/device.cuh"
#include "ops/kernels.cuh"
#include "ops/matmul.h"

namespace nanofsdp::ops::cuda {
namespace {

using namespace nanofsdp::cuda;

// Reads the kernel's number for a product from the file, where a line says "PRODUCT: NUMBER". If
// several lines do, the first one holds. Returns -1 if there is none.
int number_in(const std::string& path, const std::string& product) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // whole lines
    const std::size_t end = line.rfind(": ");
    if (end != std::string::npos && line.substr(0, end) == product)
      return std::atoi(line.c_str() + end + 2);
  }
  return -1;
}

// Adds such a line. Lines of several ranks come one after the other, in whichever order.
void add_line(const std::string& path, const std::string& product, int number) {
  std::ofstream file(path, std::ios::app);
  file << product + ": " + std::to_string(number) + "\n" << std::flush;
  NANOFSDP_CHECK(file.good(), .what = "products in " + path,
                 .expected = "a file that can be written", .got = std::strerror(errno));
}

// The milliseconds that `work` takes on `stream`.
template <class Work>
float time_of(cudaStream_t stream, const Work& work) {
  CudaEvent begin(stream, cudaEventDefault);
  work();
  CudaEvent end(stream, cudaEventDefault);
  end.synchronize();
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin.native(), end.native()), "timing products");
  return ms;
}

// The operands of one product.
struct Operands {
  const Tensor &a, &b, &c;
  float keep;  // the part of C that stays in the sum: 0 or 1
};

// The use of cuBLAS by one stream. Its products run one after the other, so they share a workspace.
class Blas {
 public:
  Blas() {
    cublasLtHandle_t made = nullptr;
    NANOFSDP_CHECK(lt_.cublasLtCreate(&made) == CUBLAS_STATUS_SUCCESS, .what = "matmul on a GPU",
                   .expected = "a handle of cuBLAS", .got = "none");
    handle_.reset(made);
  }

  // After this call, new plans use the fastest kernels, which the file names.
  void take_fastest(const std::string& file) { file_ = file; }

  void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
                Write write, const Tensor& bias) {
    const Product product{.form = form,
                          .dtype = a.dtype(),
                          .result = c.dtype(),
                          .rows = c.dim(0),
                          .cols = c.dim(1),
                          .depth = a.dim(form == Form::tn ? 0 : 1),
                          .bias = !bias.empty(),
                          .aligned = fits_packs(a, b, c, bias)};
    const Operands operands{a, b, c, write == Write::add ? 1.0f : 0.0f};
    const void* const added = bias.raw();
    const PlanMaker maker(lt_, product);
    auto known = plans_.find(product);
    if (known == plans_.end()) {
      known = plans_.emplace(product, maker.make(handle_.get(), a, b, c, added)).first;
      if (!file_.empty()) known->second.taken = fastest(stream, product, known->second, operands);
    }
    const Plan& plan = known->second;
    if (product.bias) maker.set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, added);
    maker.check(run(stream, plan, plan.taken, operands, c.raw()));
  }

 private:
  // Computes D = A B + keep * C with kernel number `kernel`.
  cublasStatus_t run(Stream& stream, const Plan& plan, int kernel, const Operands& o,
                     void* d) const {
    const float one = 1;
    return lt_.cublasLtMatmul(handle_.get(), plan.operation.get(), &one, o.b.raw(), plan.b.get(),
                              o.a.raw(), plan.a.get(), &o.keep, o.c.raw(), plan.c.get(), d,
                              plan.c.get(), &plan.kernels[kernel].algo, workspace_.get(),
                              kWorkspaceBytes, native(stream));
  }

  // Returns the number of the fastest kernel. Ranks that share the file may all time a product for
  // which it has no line yet. Then they all take the number in the first of their lines.
  int fastest(Stream& stream, const Product& product, const Plan& plan, const Operands& o) const {
    const std::string name = gpu_ + ", " + product.str();
    int taken = number_in(file_, name);
    if (taken < 0) {
      add_line(file_, name, measure(stream, plan, o));
      taken = number_in(file_, name);
    }
    NANOFSDP_CHECK(taken >= 0 && taken < plan.count, .what = product.str() + " in " + file_,
                   .expected = "a number below " + std::to_string(plan.count),
                   .got = std::to_string(taken), .hint = "delete the file");
    return taken;
  }

  // Times each kernel three times and takes the shortest time of each. The first kernel is used
  // unless another one is at least 2 % faster, because the choice between nearly equal ones would
  // be random. If the product adds to C, the measurement does not change C.
  int measure(Stream& stream, const Plan& plan, const Operands& o) const {
    const Memory aside{allocate(o.keep > 0 ? o.c.bytes() : 0), release};
    void* const d = o.keep > 0 ? aside.get() : o.c.raw();
    int best = 0;
    float shortest = INFINITY;
    for (int k = 0; k < plan.count; ++k) {
      if (run(stream, plan, k, o, d) != CUBLAS_STATUS_SUCCESS) continue;
      float ms = INFINITY;
      for (int i = 0; i < 3; ++i)
        ms = std::min(ms, time_of(native(stream), [&] {
                        for (int n = 0; n < 4; ++n) run(stream, plan, k, o, d);
                      }));
      if (ms < 0.98f * shortest) best = k, shortest = ms;
    }
    return best;
  }

  // The number of a kernel depends on the product, on the GPU and on the version of cuBLASLt.
  std::string name_of_gpu() const {
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "asking for the GPU");
    check(cudaGetDeviceProperties(&properties, device), "asking for the GPU");
    return std::string(properties.name) + ", cuBLASLt " + std::to_string(lt_.cublasLtGetVersion());
  }

  const CublasLt lt_;
  Owned<std::remove_pointer_t<cublasLtHandle_t>> handle_{nullptr, lt_.cublasLtDestroy};
  const std::string gpu_ = name_of_gpu();
  const Memory workspace_{allocate(kWorkspaceBytes), release};
  std::map<Product, Plan> plans_;
  std::string file_;  // names the fastest kernels; empty: each product uses the first kernel
};

}  // namespace

void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              Write write, const Tensor& bias) {
  kept_with<Blas>(stream).multiply(stream, form, a, b, c, write, bias);
}

void take_fastest_products(Stream& stream, const std::string& file) {
  kept_with<Blas>(stream).take_fastest(file);
}

}  // namespace nanofsdp::ops::cuda
