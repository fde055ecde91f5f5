#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

namespace nanofsdp::nn {

/// @file
/// @brief A table of vectors as a module: an index comes in, a row goes out.

/// Rows of a table [count, width], looked up by int32 index (PyTorch's nn.Embedding). The input has
/// no gradient, so backward returns an empty tensor.
class Embedding final : public Module {
 public:
  /// Forward takes indices [...] and gives rows [..., width]. An index outside [0, count) is an
  /// Error on the CPU; on a GPU it ends the kernel (ops/embedding.h).
  /// @param count rows, in a GPT the tokens  @param width elements of a row
  /// @param init of the table; that of nn.Embedding is Init::normal(1)
  Embedding(std::int64_t count, std::int64_t width, Init init);

  /// The table, [count, width], for a Linear that shares it (a tied weight).
  const std::shared_ptr<Parameter>& weight() const { return weight_; }

 private:
  Tensor do_forward(Tape& tape, Tensor index) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
};

}  // namespace nanofsdp::nn
