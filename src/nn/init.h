#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"

namespace nanofsdp::nn {

struct Parameter;

/// @file
/// @brief How parameters get their first values: they are drawn from one stream of random numbers.

/// A distribution. Zeros and ones take nothing from the stream.
struct Init {
  /// The kinds of distributions.
  enum class Kind { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double scale = 0;  ///< normal: standard deviation, mean 0; uniform: bound b of [-b, b)

  static Init zeros() { return {Kind::zeros, 0}; }                      ///< every element 0
  static Init ones() { return {Kind::ones, 0}; }                        ///< every element 1
  static Init normal(double std) { return {Kind::normal, std}; }        ///< mean 0, variance std^2
  static Init uniform(double bound) { return {Kind::uniform, bound}; }  ///< in [-bound, bound)
};

/// One draw of a plan. A plan lists all draws in the order of the stream. Some draws are
/// overwritten by later ones: PyTorch's constructors draw, and then nanoGPT draws again. They are
/// in the plan, because they move the stream.
struct Draw {
  Parameter* parameter = nullptr;  ///< the parameter that gets the values
  Init init{};                     ///< the distribution
};

/// All draws, in the order in which they take numbers from the stream.
using DrawPlan = std::vector<Draw>;

/// Fills `out`, the whole parameter, from the stream.
void draw(Generator& generator, const Init& init, std::span<float> out);

/// Moves the stream on as draw() of `numel` elements would.
void skip(Generator& generator, const Init& init, std::int64_t numel);

}  // namespace nanofsdp::nn
