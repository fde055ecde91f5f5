#pragma once

#include <array>
#include <string_view>

namespace lesson {

/// @file
/// @brief The bytes that papers count for a parameter, to compare them with a plan.

/// A way to keep a model's state while it trains with Adam, and the bytes that it takes without
/// sharding.
struct Recipe {
  std::string_view name;
  int master;     ///< bytes of the weight that the optimizer updates; 0: `parameter` is that weight
  int parameter;  ///< bytes of the weight that layers compute with; 0: `master` is that weight
  int gradient;   ///< bytes of the gradient
  int moment;     ///< bytes of each of Adam's two moments

  /// Bytes that each of `ranks` ranks keeps for a parameter at a stage of ZeRO. Stage 1 divides the
  /// state that only the optimizer reads, stage 2 also the gradient, stage 3 also the weight.
  constexpr double bytes_a_parameter(int stage = 0, double ranks = 1) const {
    const int weight = parameter > 0 ? parameter : master;  // the weight that layers compute with
    const int state = master + parameter - weight + 2 * moment;
    return weight / (stage >= 3 ? ranks : 1) + gradient / (stage >= 2 ? ranks : 1) +
           state / (stage >= 1 ? ranks : 1);
  }
};

/// The recipes in papers (ZeRO section 3.1; Apex's O1, O2, O3). plan.h has the bytes that this
/// program keeps.
inline constexpr std::array<Recipe, 4> kRecipes = {{
    {.name = "float32", .master = 4, .parameter = 0, .gradient = 4, .moment = 4},
    {.name = "autocast (O1)", .master = 4, .parameter = 2, .gradient = 4, .moment = 4},
    {.name = "master weights (O2)", .master = 4, .parameter = 2, .gradient = 2, .moment = 4},
    {.name = "all bfloat16 (O3)", .master = 0, .parameter = 2, .gradient = 2, .moment = 2},
}};

}  // namespace lesson
