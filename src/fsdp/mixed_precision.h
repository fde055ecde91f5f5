#pragma once

#include <array>
#include <string_view>

#include "base/device.h"
#include "base/dtype.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which numbers are short: what units compute with, and what travels.
///
/// The shard is the master copy and stays float32, as do the moments and the gradient shard. Only
/// what is whole for a moment is rounded: the shard is cast before it is gathered, so half the
/// bytes travel, and gradients are cast before they are reduced. Sums run in float32 and are
/// rounded once.
///
/// A GPU computes with the bfloat16 weights as they arrive, in half the memory too, and rounds what
/// autocast rounds: the x and dy that a weight is multiplied with. Unlike autocast's, all results
/// stay float32: of products, whose sums run in float32 on tensor cores, of layer norms, and the
/// gradients of weights. A CPU has no such arithmetic: there the rounded weights are widened, and
/// all is computed in float32.

/// The dtypes of FSDP's MixedPrecision: float32 or bfloat16 each.
struct MixedPrecision {
  DType param_dtype = DType::float32;   ///< of gathered parameters
  DType reduce_dtype = DType::float32;  ///< of gradients while they are reduced

  friend bool operator==(const MixedPrecision&, const MixedPrecision&) = default;
};

/// What the parameters of an unsharded unit are kept in: as they travelled, or widened.
constexpr DType compute_dtype(const MixedPrecision& precision, Device device) {
  return has_bfloat16_arithmetic(device) ? precision.param_dtype : DType::float32;
}

/// A way to keep a model's state while it trains with Adam, and what it costs without sharding.
struct Recipe {
  std::string_view name;
  int master;     ///< bytes of the weight that the optimizer updates, 0: `parameter` is it
  int parameter;  ///< bytes of the weight that layers compute with, 0: `master` is it
  int gradient;   ///< bytes
  int moment;     ///< bytes of each of Adam's two

  /// Bytes that each of `ranks` keeps of a parameter at a stage of ZeRO: 1 divides what only the
  /// optimizer reads, 2 the gradient too, 3 the weight too.
  constexpr double bytes_a_parameter(int stage = 0, double ranks = 1) const {
    const int weight = parameter > 0 ? parameter : master;  // that layers compute with
    const int state = master + parameter - weight + 2 * moment;
    return weight / (stage >= 3 ? ranks : 1) + gradient / (stage >= 2 ? ranks : 1) +
           state / (stage >= 1 ? ranks : 1);
  }
};

/// What the papers count (ZeRO section 3.1; Apex's O1, O2, O3). It is not what we keep: plan.h.
inline constexpr std::array<Recipe, 4> kRecipes = {{
    {.name = "float32", .master = 4, .parameter = 0, .gradient = 4, .moment = 4},
    {.name = "autocast (O1)", .master = 4, .parameter = 2, .gradient = 4, .moment = 4},
    {.name = "master weights (O2)", .master = 4, .parameter = 2, .gradient = 2, .moment = 4},
    {.name = "all bfloat16 (O3)", .master = 0, .parameter = 2, .gradient = 2, .moment = 2},
}};

}  // namespace nanofsdp::fsdp
