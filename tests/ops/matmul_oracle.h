#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ops/matmul.h"
#include "support/tensors.h"

/// Computes both directions in double with three loops, and makes operands for the operator.
namespace nanofsdp::ops::matmul_oracle {

using testing::Owned;
using testing::random_tensor;
using Doubles = std::vector<double>;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

struct Sizes {
  std::int64_t N, K, M;  // rows, features in, features out
};

inline Doubles forward(const Sizes& s, const Doubles& x, const Doubles& weight,
                       const Doubles& bias) {
  Doubles y(s.N * s.M);
  for (std::int64_t n = 0; n < s.N; ++n) {
    for (std::int64_t m = 0; m < s.M; ++m) {
      double sum = bias.empty() ? 0 : bias[m];
      for (std::int64_t k = 0; k < s.K; ++k) sum += x[n * s.K + k] * weight[m * s.K + k];
      y[n * s.M + m] = sum;
    }
  }
  return y;
}

struct Gradients {
  Doubles dx, dweight, dbias;
};

// Adds to dweight and dbias, as the operator does.
inline Gradients backward(const Sizes& s, const Doubles& dy, const Doubles& x,
                          const Doubles& weight, Doubles dweight, Doubles dbias) {
  Gradients g{Doubles(s.N * s.K), std::move(dweight), std::move(dbias)};
  for (std::int64_t n = 0; n < s.N; ++n) {
    for (std::int64_t m = 0; m < s.M; ++m) {
      const double d = dy[n * s.M + m];
      g.dbias[m] += d;
      for (std::int64_t k = 0; k < s.K; ++k) {
        g.dx[n * s.K + k] += d * weight[m * s.K + k];
        g.dweight[m * s.K + k] += d * x[n * s.K + k];
      }
    }
  }
  return g;
}

// The operands of both directions, with random inputs. The gradients of parameters are not zero
// before the call.
struct Operands {
  explicit Operands(const Sizes& s)
      : x(random_tensor({s.N, s.K}, 1)),
        weight(random_tensor({s.M, s.K}, 2)),
        bias(random_tensor({s.M}, 3)),
        dy(random_tensor({s.N, s.M}, 4)),
        y({s.N, s.M}, kPoison),
        dx({s.N, s.K}, kPoison),
        dweight(random_tensor({s.M, s.K}, 5)),
        dbias(random_tensor({s.M}, 6)) {}

  MatmulForward forward() { return {.x = x, .weight = weight, .bias = bias, .y = y}; }
  MatmulBackward backward() {
    return {.dy = dy, .x = x, .weight = weight, .dx = dx, .dweight = dweight, .dbias = dbias};
  }

  Owned<float> x, weight, bias, dy, y, dx, dweight, dbias;
};

}  // namespace nanofsdp::ops::matmul_oracle
