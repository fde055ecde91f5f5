#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "support/device.h"

namespace nanofsdp::testing {

/// A tensor that owns its elements, on the device under test. The host can read its memory.
template <class T = float>
struct Owned {
  explicit Owned(Shape shape, T value = T{})
      : values(static_cast<std::size_t>(shape.numel()), value), shape(shape) {}

  Tensor view() { return Tensor(values.data(), shape, dtype_of<T>, kDevice); }
  operator Tensor() { return view(); }
  std::vector<double> doubles() const { return {values.begin(), values.end()}; }

  Values<T> values;
  Shape shape;
};

/// Uniform numbers in [-1, 1) times `scale`, the same for a seed on every machine.
inline Owned<float> random_tensor(Shape shape, std::uint32_t seed, float scale = 1) {
  Owned<float> tensor(shape);
  std::mt19937 bits(seed);
  for (float& x : tensor.values) {
    x = scale * (static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f);
  }
  return tensor;
}

/// The elements of x, rounded to bfloat16.
inline Owned<bfloat16> narrow(const Owned<float>& x) {
  Owned<bfloat16> narrow(x.shape);
  std::ranges::transform(x.values, narrow.values.begin(), to_bfloat16);
  return narrow;
}

/// The elements of x in float32, which is exact.
inline Owned<float> widened(const Owned<bfloat16>& x) {
  Owned<float> wide(x.shape);
  std::ranges::transform(x.values, wide.values.begin(), to_float32);
  return wide;
}

/// The elements of x rounded to bfloat16, in float32.
inline Owned<float> rounded(Owned<float> x) {
  for (float& value : x.values) value = to_float32(to_bfloat16(value));
  return x;
}

/// ||got - want|| / ||want||, or the norm of `got` if `want` is zero.
inline double relative_l2(std::span<const float> got, std::span<const double> want) {
  if (got.size() != want.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// d f(x) / d x[i] for every i, by central differences in double.
inline std::vector<double> finite_differences(
    std::vector<double> x, const std::function<double(const std::vector<double>&)>& f,
    double h = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    gradient[i] = (above - f(x)) / (2 * h);
    x[i] = at;
  }
  return gradient;
}

}  // namespace nanofsdp::testing
