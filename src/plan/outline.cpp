#include "plan/outline.h"

#include <algorithm>

#include "base/cost.h"
#include "fsdp/wrap.h"
#include "gpt/block.h"

namespace nanofsdp::plan {
namespace {

// The cost of a kernel. In attention a token sees half of its row on average.
Cost cost_of(const Kernel& kernel, const Tensor& x) {
  const auto row = static_cast<double>(x.dim(1)), tokens = static_cast<double>(x.dim(0)) * row;
  const auto in = static_cast<double>(kernel.in), out = static_cast<double>(kernel.out);
  const auto width = static_cast<double>(size_of(x.dtype()));
  const double half = tokens * static_cast<double>(kernel.bytes) / 2;
  return {.products = 2 * tokens * in * out,
          .narrowest = std::min({tokens, in, out}),
          .bfloat16 = x.dtype() == DType::bfloat16,
          .attention = tokens * (row + 1) / 2 * static_cast<double>(kernel.attention),
          .read = width * (tokens * in + in * out) + half,
          .written = width * tokens * out + half,
          .launches = kernel.launches};
}

// Allocates `bytes` bytes for each token.
Tensor take(nn::Tape& tape, const Tensor& x, std::int64_t bytes) {
  return bytes > 0 ? tape.allocate({x.dim(0), x.dim(1), bytes / 2}, DType::bfloat16) : Tensor();
}

void work(nn::Tape& tape, const Tensor& x, const Pass& pass, comm::Communicator* tensor) {
  const nn::Tape::Scope temporaries(tape);
  for (const std::int64_t bytes : pass.temporaries) take(tape, x, bytes);
  for (const Kernel& kernel : pass.kernels) {
    if (kernel.launches > 0) tape.stream().enqueue(cost_of(kernel, x), [] {});
    const Tensor parts = take(tape, x, kernel.summed);
    if (!parts.empty()) tensor->all_reduce(tape.stream(), parts, comm::ReduceOp::sum);
  }
}

}  // namespace

Outline::Outline(const Layer& layer) : layer(layer) {
  for (const Shape& shape : layer.parameters)
    add("parameter_" + std::to_string(own_parameters().size()),
        std::make_shared<nn::Parameter>(shape, nn::Init::zeros()));
  for (const Layer& next : layer.behind) {
    Outline& made = *behind_.emplace_back(std::make_unique<Outline>(next));
    add("layers." + std::to_string(behind_.size() - 1), made);
  }
}

void Outline::set_tensor(comm::Communicator& group) {
  tensor_ = &group;
  for (const auto& [name, parameter] : own_parameters())  // a group divides the matrices
    if (parameter->shape.rank() == 2) parameter->part = {0, group.rank(), group.size()};
  for (const auto& next : behind_) next->set_tensor(group);
}

Tensor Outline::do_forward(nn::Tape& tape, Tensor x) {
  take(tape, x, layer.kept);
  Tensor y = x;
  if (layer.width > 0) y = tape.allocate({x.dim(0), x.dim(1), layer.width}, layer.dtype);
  work(tape, x, layer.forward, tensor_);
  tape.save({x});
  nn::Tape::Scope stream(tape, /*frees=*/!tape.training());
  for (const auto& next : behind_) y = stream.keep(next->forward(tape, y));
  return y;
}

// Writes dx into the memory of dy if it can. Tokens have no gradient.
Tensor Outline::do_backward(nn::Tape& tape, Tensor dy) {
  for (std::size_t i = behind_.size(); i-- > 0;) dy = behind_[i]->backward(tape, dy);
  const auto [x] = tape.restore<1>();
  for (const auto& [name, parameter] : own_parameters()) parameter->grad_to_add_to();
  Tensor dx = x.shape() == dy.shape() ? dy : Tensor();
  if (dx.empty() && x.dtype() != DType::int32) dx = tape.allocate(x.shape(), x.dtype());
  work(tape, x, layer.backward, tensor_);
  return dx;
}

bool is_block(const nn::Module& module) {
  const auto* outline = dynamic_cast<const Outline*>(&module);
  return outline != nullptr ? outline->layer.is_unit : fsdp::is_a<gpt::Block>(module);
}

}  // namespace nanofsdp::plan
