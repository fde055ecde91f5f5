#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"

namespace nanofsdp::nn {

struct Parameter;

/// @file
/// @brief How parameters get their first values: one draw of a seeded stream after the other.

/// A distribution. Zeros and ones take nothing from the stream.
struct Init {
  /// The distributions that there are.
  enum class Kind { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;  ///< which of them
  double scale = 0;         ///< normal: standard deviation, mean 0; uniform: bound b of [-b, b)

  static Init zeros() { return {Kind::zeros, 0}; }                      ///< every element 0
  static Init ones() { return {Kind::ones, 0}; }                        ///< every element 1
  static Init normal(double std) { return {Kind::normal, std}; }        ///< mean 0, variance std^2
  static Init uniform(double bound) { return {Kind::uniform, bound}; }  ///< in [-bound, bound)
};

/// One draw of a plan. A plan lists every draw in stream order, also those that a later one
/// overwrites (PyTorch's constructors draw, and nanoGPT draws again): they move the stream.
struct Draw {
  Parameter* parameter = nullptr;  ///< whose elements
  Init init{};                     ///< from which distribution
};

/// Draws, in the order in which they take from the stream.
using DrawPlan = std::vector<Draw>;

/// Fills `out`, the whole parameter, from the stream.
void draw(Generator& generator, const Init& init, std::span<float> out);

/// Moves the stream on as draw() of `numel` elements would.
void skip(Generator& generator, const Init& init, std::int64_t numel);

}  // namespace nanofsdp::nn
