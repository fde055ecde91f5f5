#include "ops/gemm.cuh"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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
#include "base/cuda.h"
#include "ops/kernels.cuh"
#include "ops/matmul.h"

namespace nanofsdp::ops::cuda {
namespace {

// Reads the kernel's number for a product from the file, where a line says "PRODUCT: NUMBER".
// Returns -1 if there is no such line.
int number_in(const std::string& path, const std::string& product) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.rfind(": ");
    if (end != std::string::npos && line.substr(0, end) == product) {
      return std::atoi(line.c_str() + end + 2);
    }
  }
  return -1;
}

// While an object of this class exists, other ranks wait before they write to the file.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)) {
    require(file_ >= 0 && flock(file_, LOCK_EX) == 0, "a file that can be written and locked");
  }
  ~LockedFile() { close(file_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  void add(const std::string& product, int number) const {
    const std::string line = product + ": " + std::to_string(number) + "\n";
    require(write(file_, line.data(), line.size()) == std::ssize(line), "room for a line");
  }

 private:
  void require(bool holds, const char* expected) const {
    NANOFSDP_CHECK(holds, .what = "products in " + path_, .expected = expected,
                   .got = std::strerror(errno));
  }

  std::string path_;
  int file_;
};

class Timer {
 public:
  Timer() {
    for (cudaEvent_t* e : {&begin_, &end_})
      nanofsdp::cuda::check(cudaEventCreateWithFlags(e, 0), "making an event");
  }
  ~Timer() { cudaEventDestroy(begin_), cudaEventDestroy(end_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // The milliseconds that `work` takes on `stream`.
  template <class Work>
  float time(cudaStream_t stream, const Work& work) {
    float ms = 0;
    nanofsdp::cuda::check(cudaEventRecord(begin_, stream), "recording an event");
    work();
    nanofsdp::cuda::check(cudaEventRecord(end_, stream), "recording an event");
    nanofsdp::cuda::check(cudaEventSynchronize(end_), "timing products");
    nanofsdp::cuda::check(cudaEventElapsedTime(&ms, begin_, end_), "timing products");
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

bool is_aligned(const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0; }

using Memory = std::unique_ptr<void, void (*)(void*) noexcept>;

Memory memory_of(std::size_t bytes) {
  return {nanofsdp::cuda::allocate(bytes), nanofsdp::cuda::release};
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
    NANOFSDP_CHECK(lt_.cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS, .what = "matmul on a GPU",
                   .expected = "a handle of cuBLAS", .got = "none");
  }
  ~Blas() { lt_.cublasLtDestroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // After this call, new plans use the fastest kernels, which the file names.
  void take_fastest(const std::string& file) { file_ = file; }

  void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
                Write write, const Tensor& bias) {
    const Product product{
        .form = form,
        .dtype = a.dtype(),
        .result = c.dtype(),
        .rows = c.dim(0),
        .cols = c.dim(1),
        .depth = a.dim(form == Form::tn ? 0 : 1),
        .bias = !bias.empty(),
        .aligned = is_aligned(a) && is_aligned(b) && is_aligned(c) && is_aligned(bias)};
    const Operands operands{a, b, c, write == Write::add ? 1.0f : 0.0f};
    const void* const added = bias.raw();
    auto known = plans_.find(product);
    if (known == plans_.end()) {
      known = plans_.emplace(product, PlanMaker(lt_, product).make(handle_, a, b, c, added)).first;
      if (!file_.empty()) known->second.taken = fastest(stream, product, known->second, operands);
    }
    const Plan& plan = known->second;
    if (product.bias) {
      check(lt_,
            lt_.cublasLtMatmulDescSetAttribute(
                plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &added, sizeof added),
            product);
    }
    check(lt_, run(stream, plan, plan.taken, operands, c.raw()), product);
  }

 private:
  // Computes D = A B + keep * C with kernel number `kernel`.
  cublasStatus_t run(Stream& stream, const Plan& plan, int kernel, const Operands& o,
                     void* d) const {
    const float one = 1;
    return lt_.cublasLtMatmul(handle_, plan.operation.get(), &one, o.b.raw(), plan.b.get(),
                              o.a.raw(), plan.a.get(), &o.keep, o.c.raw(), plan.c.get(), d,
                              plan.c.get(), &plan.kernels[kernel].algo, workspace_.get(),
                              kWorkspaceBytes, nanofsdp::cuda::native(stream));
  }

  // Returns the number of the fastest kernel. Before this rank locks the file, it waits until its
  // stream is idle, so the timed work does not wait for another rank.
  int fastest(Stream& stream, const Product& product, const Plan& plan, const Operands& o) const {
    const std::string name = gpu_ + ", " + product.str();
    int taken = number_in(file_, name);
    if (taken < 0) {
      stream.synchronize();
      const LockedFile file(file_);
      taken = number_in(file_, name);  // another rank may have timed it by now
      if (taken < 0) file.add(name, taken = measure(stream, plan, o));
    }
    NANOFSDP_CHECK(taken < plan.count, .what = product.str() + " in " + file_,
                   .expected = "a number below " + std::to_string(plan.count),
                   .got = std::to_string(taken), .hint = "delete the file");
    return taken;
  }

  // Times each kernel three times and takes the shortest time of each. The first kernel is used
  // unless another one is at least 2 % faster, because the choice between nearly equal ones would
  // be random. If the product adds to C, the measurement does not change C.
  int measure(Stream& stream, const Plan& plan, const Operands& o) const {
    const Memory aside = memory_of(o.keep > 0 ? o.c.bytes() : 0);
    void* const d = o.keep > 0 ? aside.get() : o.c.raw();
    Timer timer;
    int best = 0;
    float shortest = 0;
    for (int k = 0; k < plan.count; ++k) {
      if (run(stream, plan, k, o, d) != CUBLAS_STATUS_SUCCESS) continue;
      float ms = INFINITY;
      for (int i = 0; i < 3; ++i) {
        ms = std::min(ms, timer.time(nanofsdp::cuda::native(stream), [&] {
          for (int n = 0; n < 4; ++n) run(stream, plan, k, o, d);
        }));
      }
      if (k == 0 || ms < 0.98f * shortest) best = k, shortest = ms;
    }
    return best;
  }

  // The number of a kernel depends on the product, on the GPU and on the version of cuBLASLt.
  std::string name_of_gpu() const {
    int device = 0;
    cudaDeviceProp properties{};
    nanofsdp::cuda::check(cudaGetDevice(&device), "asking for the GPU");
    nanofsdp::cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the GPU");
    return std::string(properties.name) + ", cuBLASLt " + std::to_string(lt_.cublasLtGetVersion());
  }

  const CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  const std::string gpu_ = name_of_gpu();
  Memory workspace_ = memory_of(kWorkspaceBytes);
  std::map<Product, Plan> plans_;
  std::string file_;  // names the fastest kernels; empty: each product uses the first kernel
};

}  // namespace

void multiply(Stream& stream, Form form, const Tensor& a, const Tensor& b, const Tensor& c,
              Write write, const Tensor& bias) {
  nanofsdp::cuda::kept_with<Blas>(stream).multiply(stream, form, a, b, c, write, bias);
}

void take_fastest_products(Stream& stream, const std::string& file) {
  nanofsdp::cuda::kept_with<Blas>(stream).take_fastest(file);
}

}  // namespace nanofsdp::ops::cuda
