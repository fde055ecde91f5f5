#include "ops/matmul.h"

#include "ops/copy_chunks.h"
#include "ops/gemm.cuh"
#include "ops/kernels.cuh"

namespace nanofsdp::ops {
using namespace cuda;
namespace {

// cuBLAS multiplies bfloat16 with bfloat16 only, and its bias must have the dtype of the result.
// Operands of another dtype are cast into a scratch.
struct Dy : Scratch {};
struct X : Scratch {};
struct Bias : Scratch {};

template <class Name>
Tensor as(DType dtype, Stream& stream, const Tensor& x) {
  if (x.empty() || x.dtype() == dtype) return x;
  auto* const bytes = scratch<Name, std::byte>(stream, x.numel() * size_of(dtype));
  const Tensor cast_x(bytes, x.shape(), dtype, Device::cuda);
  cast(stream, {.in = x, .out = cast_x});
  return cast_x;
}

}  // namespace

// cuBLAS adds the bias in the same kernel. It could also apply GELU, but only in the tanh form, not
// in the form with erf.
void run_on_gpu(Stream& stream, const MatmulForward& a) {
  if (a.y.empty()) return;
  multiply(stream, Form::nt, as<X>(a.weight.dtype(), stream, a.x), a.weight, a.y, Write::assign,
           as<Bias>(a.y.dtype(), stream, a.bias));
}

void run_on_gpu(Stream& stream, const MatmulBackward& a) {
  if (a.dy.empty()) return;
  const DType dtype = a.weight.dtype();
  const Tensor dy = as<Dy>(dtype, stream, a.dy);
  if (!a.dx.empty()) multiply(stream, Form::nn, dy, a.weight, a.dx, Write::assign);
  if (!a.dweight.empty())
    multiply(stream, Form::tn, dy, as<X>(dtype, stream, a.x), a.dweight, Write::add);
  // cuBLAS could also sum dy in this product (BGRADB). But it overwrites dbias, whatever beta is,
  // where the sum must be added to dbias. It would also sum dy after rounding.
  if (!a.dbias.empty()) {
    const std::int64_t rows = a.dy.dim(0), cols = a.dy.dim(1);
    for_type_of(a.dy, [&]<class T>(T) {
      launch(stream, blocks_for(cols, kColumns), dim3(kColumns, kTurns), add_columns<T>,
             a.dy.data<T>(), rows, cols, cols, a.dbias.f32(), nullptr);
    });
  }
}

}  // namespace nanofsdp::ops
