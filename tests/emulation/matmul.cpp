#include "ops/matmul.h"

// cuBLASLt is a library and has no kernel of ours to test: the emulated device multiplies as the CPU
// does.

namespace nanofsdp::ops::cuda {
namespace {

Tensor on_host(const Tensor& x) {
  return x.empty() ? Tensor() : Tensor(x.raw(), x.shape(), x.dtype());
}

}  // namespace

void matmul(Stream&, const MatmulForward& a) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  ops::matmul(*stream, MatmulForward{.x = on_host(a.x),
                                     .weight = on_host(a.weight),
                                     .bias = on_host(a.bias),
                                     .y = on_host(a.y)});
}

void matmul(Stream&, const MatmulBackward& a) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  ops::matmul(*stream, MatmulBackward{.dy = on_host(a.dy),
                                      .x = on_host(a.x),
                                      .weight = on_host(a.weight),
                                      .dx = on_host(a.dx),
                                      .dweight = on_host(a.dweight),
                                      .dbias = on_host(a.dbias)});
}

}  // namespace nanofsdp::ops::cuda
