#pragma once

#include "fsdp/unit.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The norm of the whole model's gradient, from shards, and the coefficient that clips it.
///
///     s_r = sum of squares over all shards r, in double
///     norm = sqrt(sum over ranks r of s_r)
///     coefficient = min(1, max_norm / (norm + 1e-6))    (torch.nn.utils.clip_grad_norm_)
///
/// Padding does not count. In a tensor group (comm/mesh.h) the sum goes over the shards of all its
/// ranks. Each rank counts its parts of parameters; only the first one counts the replicated
/// parameters, whose gradients are the same on all of them. So each element of the whole model
/// counts once.
///
/// If every rank has the whole reduced gradient, it computes all of s_0 ... s_W-1 by itself. So
/// every strategy gets the same bits from the same gradients. All numbers stay on the device.

/// The norm and the coefficient of one sharded model. ShardedModel::clip() calls it.
class GradNorm {
 public:
  /// @param context, mesh outlive this object
  explicit GradNorm(Context& context, comm::Mesh& mesh);

  /// Enqueues the computation of both from the units' reduced gradients.
  /// @param max_norm 0 or less: no clipping, coefficient 1
  void compute(std::span<Unit> units, double max_norm);

  Tensor norm() const { return clip_.tensor({2}).slice(0, 1); }  ///< float32, before clipping
  Tensor coefficient() const { return clip_.tensor({2}).slice(1, 1); }  ///< float32

 private:
  Context& context_;
  comm::Mesh& mesh_;
  Buffer squares_;  // float64 [W]: s_0 ... s_W-1
  Buffer rows_;     // float64: the sums of all ranks of the tensor group, each with its row
  Buffer clip_;     // float32 [2]: the norm and the coefficient
};

}  // namespace nanofsdp::fsdp
