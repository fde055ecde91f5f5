#pragma once

#include <functional>
#include <string>

#include "base/tensor.h"
#include "nn/init.h"

namespace nanofsdp::nn {

/// @file
/// @brief A parameter: a name, a shape, and views of memory that somebody else owns.
///
/// The model reads `data` and adds to `grad` at the moment of use and keeps no copy of either, so
/// whoever owns the memory may move it between uses. On one process the views always show the whole
/// parameter; under FSDP they show the whole of it while its unit is unsharded, and between uses
/// the piece that lies in this rank's shard, as one dimension: all, a part, or nothing.

struct Parameter {
  Parameter(Shape shape, Init init) : shape(shape), init(init) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  std::string name;           ///< path in the module tree, "transformer.h.0.attn.c_attn.weight"
  Shape shape;                ///< of the whole parameter
  Init init;                  ///< how it is initialised
  bool requires_grad = true;  ///< false: frozen, it gets no gradient and no update
  Tensor data;                ///< float32; bfloat16 only while FSDP shows it so, on a GPU
  Tensor grad;                ///< float32, same shape as data; empty where no gradient is wanted

  /// Called once a backward, when the gradient has received its last contribution and nothing
  /// reads `data` any more.
  std::function<void()> post_accumulate_grad;

  int pending_uses = 0;  ///< uses in the forward pass that backward has yet to visit; kept by Tape
};

}  // namespace nanofsdp::nn
