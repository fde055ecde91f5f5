#pragma once

#include <cstdint>
#include <memory>

#include "nn/module.h"

namespace nanofsdp::nn {

/// @file
/// @brief A table of vectors as a module: it takes indices and returns rows.

/// Looks up rows of a table [count, width] by int32 index (PyTorch's nn.Embedding). Indices have no
/// gradient, so backward returns an empty tensor.
class Embedding final : public Module {
 public:
  /// Forward takes indices [...] and returns rows [..., width]. On a CPU, an index outside [0,
  /// count) is an Error. On a GPU it stops the kernel (ops/embedding.h).
  /// @param count the number of rows; in a GPT, of tokens  @param width the elements of a row
  /// @param init how the table is initialised. PyTorch's nn.Embedding uses Init::normal(1)
  Embedding(std::int64_t count, std::int64_t width, Init init);

  /// The table, [count, width], for a Linear that shares it (a tied weight).
  const std::shared_ptr<Parameter>& weight() const { return weight_; }

 private:
  Tensor do_forward(Tape& tape, Tensor index) override;
  Tensor do_backward(Tape& tape, Tensor dy) override;

  std::shared_ptr<Parameter> weight_;
};

}  // namespace nanofsdp::nn
