#pragma once

#include <string>

#include "base/tensor.h"
#include "nn/init.h"

namespace nanofsdp::nn {

/// @file
/// @brief A parameter: a name, a shape, and views of memory that it does not own.
///
/// The model reads `data` and adds to the gradient at the moment of use and keeps no copy of
/// either, so the owner of the memory may move it between uses. On one process the views always
/// show the whole parameter; under FSDP they show all elements while its unit is unsharded, and
/// between uses the piece that lies in this rank's shard, as one dimension: all, a part, or
/// nothing.

/// A module makes its parameters with std::make_shared and registers them (Module::add). Their
/// memory comes later, from FSDP or from another program that trains the model.
struct Parameter {
  /// Declares it: no memory yet, `data` and grad() are empty.
  Parameter(Shape shape, Init init) : shape(shape), init(init) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// Its path in the module tree, "transformer.h.0.attn.c_attn.weight". If named_parameters() was
  /// called on several modules around it, the longest of these paths. Once the parameter is
  /// sharded, its path in the sharded model.
  std::string name;
  Shape shape;  ///< of the whole parameter
  Init init;    ///< how it is initialised
  /// False: it is frozen. From the next backward on it gets no gradient. What it got before stays
  /// until the gradients are zeroed. Under FSDP all ranks change it alike, and only a parameter
  /// that trained when it was sharded may train again.
  bool requires_grad = true;
  /// In which FSDP stores and sends it; set it before. bfloat16 for frozen ones alone: half the
  /// bytes, and the model computes with the rounded values.
  DType dtype = DType::float32;
  bool sharded = false;  ///< while a sharded model has it: its name and its memory are that model's
  Tensor data;  ///< float32; bfloat16 only where FSDP shows it so: on a GPU, or what it stores

  /// The gradient, to look at: float32, of data's shape, empty where none is wanted.
  Tensor grad() const { return grad_; }

  /// The same, for a backward that adds to it: it says that there is a gradient. Without such a
  /// call the parameter has none (PyTorch's `None`), whatever its memory holds.
  Tensor grad_to_add_to() {
    has_grad = has_grad || !grad_.empty();
    return grad_;
  }

  /// Points the gradient at memory, which is the caller's.
  void show_grad(Tensor grad) { grad_ = grad; }

  /// Shows no memory any more, neither values nor a gradient: their owner goes.
  void leave_owner() {
    data = grad_ = Tensor();
    sharded = has_grad = false;
  }

  bool has_grad = false;  ///< a backward added to it; zeroing the gradient sets it to false

 private:
  Tensor grad_;
};

}  // namespace nanofsdp::nn
