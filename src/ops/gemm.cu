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

// The number that a file has for a product, in a line "PRODUCT: NUMBER"; -1: none.
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

// While it lives, other ranks that want to add to the file wait.
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

  // Milliseconds that `work` takes on `stream`.
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
  float keep;  // how much of C stays in the sum: 0 or 1
};

// cuBLAS for one stream: its products follow each other, so they can share a workspace.
class Blas {
 public:
  Blas() {
    NANOFSDP_CHECK(lt_.cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS, .what = "matmul on a GPU",
                   .expected = "a handle of cuBLAS", .got = "none");
  }
  ~Blas() { lt_.cublasLtDestroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Plans that are made from now on take the fastest kernels.
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
  // D = A B + keep * C by kernel number `kernel`.
  cublasStatus_t run(Stream& stream, const Plan& plan, int kernel, const Operands& o,
                     void* d) const {
    const float one = 1;
    return lt_.cublasLtMatmul(handle_, plan.operation.get(), &one, o.b.raw(), plan.b.get(),
                              o.a.raw(), plan.a.get(), &o.keep, o.c.raw(), plan.c.get(), d,
                              plan.c.get(), &plan.kernels[kernel].algo, workspace_.get(),
                              kWorkspaceBytes, nanofsdp::cuda::native(stream));
  }

  // Before it locks the file, this rank's stream runs dry: what is timed then waits for no rank.
  int fastest(Stream& stream, const Product& product, const Plan& plan, const Operands& o) const {
    const std::string name = gpu_ + ", " + product.str();
    int taken = number_in(file_, name);
    if (taken < 0) {
      stream.synchronize();
      const LockedFile file(file_);
      taken = number_in(file_, name);  // another rank may have been faster
      if (taken < 0) file.add(name, taken = measure(stream, plan, o));
    }
    NANOFSDP_CHECK(taken < plan.count, .what = product.str() + " in " + file_,
                   .expected = "a number below " + std::to_string(plan.count),
                   .got = std::to_string(taken), .hint = "delete the file");
    return taken;
  }

  // The kernel whose fastest of three times is the shortest. The first stays unless another saves
  // 2 %: nearly equal ones would be drawn by lot. What C holds stays if the product adds to it.
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

  // What a kernel's number depends on beside the product.
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
  std::string file_;  // of the fastest kernels; empty: the first ones are taken
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
