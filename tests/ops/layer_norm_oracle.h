#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace nanofsdp::ops::layer_norm_oracle {

/// @file
/// @brief Layer normalisation by its formulas, in double.

using Doubles = std::vector<double>;

struct Sizes {
  std::int64_t R, C;
};

inline std::string name(const Sizes& s) { return Shape{s.R, s.C}.str(); }

struct Normalised {
  Doubles y, n, mean, rstd;
};

inline Normalised forward(const Sizes& s, const Doubles& x, const Doubles& weight,
                          const Doubles& bias) {
  Normalised out{Doubles(s.R * s.C), Doubles(s.R * s.C), Doubles(s.R), Doubles(s.R)};
  for (std::int64_t r = 0; r < s.R; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < s.C; ++c) mean += x[r * s.C + c] / s.C;
    for (std::int64_t c = 0; c < s.C; ++c) var += std::pow(x[r * s.C + c] - mean, 2) / s.C;
    out.mean[r] = mean;
    out.rstd[r] = 1 / std::sqrt(var + 1e-5);
    for (std::int64_t c = 0; c < s.C; ++c) {
      const std::int64_t i = r * s.C + c;
      out.n[i] = (x[i] - mean) * out.rstd[r];
      out.y[i] = out.n[i] * weight[c] + (bias.empty() ? 0 : bias[c]);
    }
  }
  return out;
}

struct Gradients {
  Doubles dx, dweight, dbias;
};

/// Adds to dweight and dbias, as the operator does.
inline Gradients backward(const Sizes& s, const Doubles& dy, const Doubles& x,
                          const Doubles& weight, Doubles dweight, Doubles dbias) {
  const Normalised f = forward(s, x, weight, {});
  Gradients out{Doubles(s.R * s.C), std::move(dweight), std::move(dbias)};
  for (std::int64_t r = 0; r < s.R; ++r) {
    double mean_g = 0, mean_gn = 0;
    for (std::int64_t c = 0; c < s.C; ++c) {
      const std::int64_t i = r * s.C + c;
      mean_g += dy[i] * weight[c] / s.C;
      mean_gn += dy[i] * weight[c] * f.n[i] / s.C;
      out.dweight[c] += dy[i] * f.n[i];
      out.dbias[c] += dy[i];
    }
    for (std::int64_t c = 0; c < s.C; ++c) {
      const std::int64_t i = r * s.C + c;
      out.dx[i] = f.rstd[r] * (dy[i] * weight[c] - mean_g - f.n[i] * mean_gn);
    }
  }
  return out;
}

}  // namespace nanofsdp::ops::layer_norm_oracle
