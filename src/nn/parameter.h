#pragma once

#include <span>
#include <string>

#include "base/tensor.h"
#include "nn/init.h"

namespace nanofsdp::nn {

/// @file
/// @brief A parameter: a name, a shape, and views of memory that it does not own.
///
/// The model reads `data` and adds to `grad()` at the moment of use and keeps no copy of either, so
/// the owner of the memory may move it between uses. On one process the views always show the whole
/// parameter; under FSDP they show all elements while its unit is unsharded, and between uses
/// the piece that lies in this rank's shard, as one dimension: all, a part, or nothing.

/// A module makes its parameters with std::make_shared and registers them (Module::add). Their
/// memory comes later, from FSDP or from another program that trains the model.
struct Parameter {
  /// Declares it: no memory yet, `data` and grad() are empty.
  Parameter(Shape shape, Init init) : shape(shape), init(init) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  std::string name;           ///< path in the module tree, "transformer.h.0.attn.c_attn.weight"
  Shape shape;                ///< of the whole parameter
  Init init;                  ///< how it is initialised
  bool requires_grad = true;  ///< false: frozen, it gets no gradient and no update
  /// In which FSDP stores and sends it. bfloat16 for frozen ones alone: half the bytes, and the
  /// model computes with the rounded values.
  DType dtype = DType::float32;
  Tensor data;  ///< float32; bfloat16 only where FSDP shows it so: on a GPU, or what it stores

  /// The gradient, for backward to add to: float32, of data's shape, empty where none is wanted.
  /// A backward that asks for it gives one. Without such a call there is none (PyTorch's `None`).
  Tensor grad() {
    has_grad = has_grad || !grad_.empty();
    return grad_;
  }

  /// The gradient's values, to look at.
  std::span<const float> grad_values() const {
    return grad_.raw() == nullptr ? std::span<const float>() : grad_.span<float>();
  }

  /// Points the gradient at memory, which is the caller's.
  void show_grad(Tensor grad) { grad_ = grad; }

  bool has_grad = false;  ///< grad() was called; zeroing the gradient sets it to false

 private:
  Tensor grad_;
};

}  // namespace nanofsdp::nn
