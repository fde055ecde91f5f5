#pragma once

#include "base/device.h"
#include "base/dtype.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The dtype of the parameters that units compute with, and of the elements that are sent.
///
/// The shard is the master copy and stays float32, as do the moments and the gradient shard. Only
/// unsharded copies are rounded. The shard is cast before it is gathered, so half the bytes are
/// sent, and gradients are cast before they are reduced. Sums run in float32, and are not rounded
/// before they are added to the gradient shard.
///
/// A GPU computes with the bfloat16 weights as they arrive, and keeps activations and their
/// gradients in bfloat16: half the memory, and no casts. As under PyTorch's FSDP with the same
/// MixedPrecision, each result of an operator is rounded once; inside operators sums run in
/// float32, on tensor cores too, and statistics, losses and the gradients of weights stay float32.
/// A CPU has no such arithmetic: there the rounded weights are widened, and all is computed in
/// float32.
///
/// Parameters in float8_e4m3 are eight bits only while they are sent. A rank computes a scale for
/// each 128 elements of its own shard (ops/copy_chunks.h), so the rounded parameters depend on the
/// layout and on the number of shards. Each rank widens the elements that it receives: on a CPU to
/// float32, for its arithmetic; on a GPU to bfloat16, as if bfloat16 had been sent.

/// The dtypes of FSDP's MixedPrecision.
struct MixedPrecision {
  /// The dtype in which parameters are gathered: float32, bfloat16 or float8_e4m3.
  DType param_dtype = DType::float32;
  /// The dtype in which gradients are sent to be added: float32 or bfloat16. The sums that groups
  /// of ranks send each other are float32 in any case.
  DType reduce_dtype = DType::float32;

  friend bool operator==(const MixedPrecision&, const MixedPrecision&) = default;
};

/// The dtype of an unsharded unit's parameters: as they were sent, or widened.
constexpr DType compute_dtype(const MixedPrecision& precision, Device device) {
  const bool narrow = precision.param_dtype != DType::float32 && has_bfloat16_arithmetic(device);
  return narrow ? DType::bfloat16 : DType::float32;
}

}  // namespace nanofsdp::fsdp
