#pragma once

#include <array>
#include <string_view>

namespace nanofsdp::cli {

/// @file
/// @brief What the papers count for a parameter, to set beside what a plan counts.

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

}  // namespace nanofsdp::cli
