#pragma once

#include <string>

#include "base/tensor.h"
#include "nn/init.h"

namespace nanofsdp::nn {

/// @file
/// @brief A parameter: a name, a shape, and views of memory that it does not own.
///
/// The model looks at the views only while it computes. So the owner of the memory may move it
/// between two uses. Without FSDP the views always show the whole parameter. Under FSDP they show
/// the whole parameter while its unit is unsharded. Otherwise they show the piece that lies in this
/// rank's shard: rows, or elements in one dimension if the layout cuts rows. The piece may be all
/// of the parameter, a part, or nothing.

/// The part of a larger parameter that one rank of a tensor group has (comm/mesh.h). Dimension
/// `dim` of the larger one consists of `groups` of equal size, and each group is divided into
/// `ranks` parts of equal size. This is part `rank` of every group.
///
///     {.dim = 0, .rank = r, .ranks = T}                 rows of a weight: column parallel
///     {.dim = 1, .rank = r, .ranks = T}                 columns of a weight: row parallel
///     {.dim = 0, .rank = r, .ranks = T, .groups = 3}    rows of queries, of keys and of values
///
/// Megatron-LM calls `dim` partition_dim, and `groups` partition_stride.
struct Part {
  int dim = 0, rank = 0, ranks = 1, groups = 1;
};

/// A module makes its parameters with std::make_shared and registers them (Module::add). Their
/// memory comes later, from FSDP or from another program that trains the model.
struct Parameter {
  /// Declares the parameter. It has no memory yet, so `data` and grad() are empty.
  Parameter(Shape whole, Init how) : shape(whole), init(how) {}
  Parameter(Parameter&&) = delete;  // so it cannot be copied either

  /// Its path in the module tree, "transformer.h.0.attn.c_attn.weight". If named_parameters() was
  /// called on several modules around it, the path with the most characters. Once the parameter is
  /// sharded, its path in the sharded model.
  std::string name;
  Shape shape;  ///< shape of the whole parameter
  Init init;    ///< how it is initialised
  /// If false, the parameter is frozen: the next backward gives it no gradient. An older gradient
  /// stays until the gradients are zeroed. Under FSDP all ranks must change it in the same way. A
  /// parameter that was frozen when it was sharded cannot train later.
  bool requires_grad = true;
  /// The dtype in which FSDP stores and sends the parameter. Set it before the model is sharded.
  /// Only frozen parameters can be bfloat16. That halves their bytes, and the model computes with
  /// the rounded values.
  DType dtype = DType::float32;
  /// The part of a larger parameter that this is. If it is the only part, all ranks of a tensor
  /// group have the same values, and backward leaves them the same gradient (comm/mesh.h). Set it
  /// before the model is sharded.
  Part part;
  bool sharded = false;  ///< whether a sharded model owns its memory and its name
  /// The values. They are float32. FSDP shows them in bfloat16 if a GPU computes with them in
  /// bfloat16, or if they are stored so. Under FSDP do not write through this view: it may be a
  /// copy, and other ranks have copies too. ShardedParameters::store() gives a parameter new values
  /// (fsdp/sharded_parameters.h).
  Tensor data;

  /// The gradient, to look at. It is float32 and has the shape of `data`, unless the strategy
  /// shards only one of the two, or the parameter was rounded. It is empty if the parameter gets no
  /// gradient. Under FSDP it shows the last gradients that were reduced.
  Tensor grad() const { return grad_; }

  /// The gradient, for a backward that adds to it; empty if the parameter is frozen. The call says
  /// that the parameter has a gradient now. Without such a call it has none (PyTorch's `None`),
  /// whatever is in the memory. Without FSDP, an optimizer of your own looks at `has_grad`.
  /// @throws Error under FSDP, outside the backward of a module of the parameter's unit: FSDP would
  ///         lose what is added there
  Tensor grad_to_add_to();

  /// Lets the gradient show memory that the caller owns.
  /// @param rests whether no backward may add to it now
  void show_grad(Tensor grad, bool rests = false) { grad_ = grad, rests_ = rests; }

  /// The owner of the memory calls this before it is destroyed. Then both views are empty.
  void leave_owner() {
    data = grad_ = Tensor();
    sharded = has_grad = rests_ = false;
  }

  bool has_grad = false;  ///< whether a backward has added to it since the gradients were zeroed

 private:
  Tensor grad_;
  bool rests_ = false;
};

}  // namespace nanofsdp::nn
