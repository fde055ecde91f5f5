#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "support/tensors.h"

namespace nanofsdp::ops::attention_oracle {

/// @file
/// @brief The parts that the tests of attention share: sizes, a call with its operands, and the
/// oracle.

using testing::Owned;
using testing::random_tensor;
using Doubles = std::vector<double>;

inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kTolerance = testing::tolerance(2e-6);
inline constexpr DropoutKey kKey{
    .seed = 1337, .iteration = 5, .micro_step = 2, .first_row = 24, .site = 3};

struct Sizes {
  std::int64_t B, T, C;
  int H, H_kv = H;  // query heads; heads of keys and values
  std::int64_t kv() const { return C / H * H_kv; }
  std::int64_t row() const { return C + 2 * kv(); }  // columns of packed queries, keys and values
};

// One position; odd widths; a query block with one row less or more; several blocks; heads as wide
// as CUDA's slices, one feature wider, and as wide as CUDA allows; heads that share keys.
inline constexpr Sizes kSizes[] = {
    {1, 1, 5, 1},      {2, 1, 8, 2},      {1, 3, 4, 2},       {2, 33, 12, 3},
    {1, 64, 32, 1},    {2, 65, 10, 2},    {1, 130, 32, 4},    {3, 31, 5, 1},
    {1, 200, 16, 1},   {1, 70, 64, 1},    {1, 63, 130, 2},    {2, 66, 128, 1},
    {2, 33, 12, 4, 2}, {1, 70, 18, 6, 1}, {1, 66, 192, 4, 2}, {3, 5, 130, 2, 1}};

inline std::string name(const Sizes& s, float dropout) {
  return "B=" + std::to_string(s.B) + " T=" + std::to_string(s.T) + " C=" + std::to_string(s.C) +
         " H=" + std::to_string(s.H) + " H_kv=" + std::to_string(s.H_kv) +
         " dropout=" + std::to_string(dropout);
}

// Computes P, its mask and every derivative in double, without blocks, and saves nothing.
struct Oracle {
  Oracle(const Sizes& s, const Doubles& qkv, float dropout, const Doubles& dy = {})
      : y(s.B * s.T * s.C), lse(s.B * s.H * s.T), dqkv(qkv.size()) {
    const std::int64_t T = s.T, D = s.C / s.H;
    for (std::int64_t b = 0; b < s.B; ++b) {
      for (std::int64_t h = 0; h < s.H; ++h) {
        const std::int64_t shared = s.C + h / (s.H / s.H_kv) * D;
        const auto q = [&](std::int64_t t) { return (b * T + t) * s.row() + h * D; };
        const auto k = [&](std::int64_t t) { return (b * T + t) * s.row() + shared; };
        const auto v = [&](std::int64_t t) { return k(t) + s.kv(); };
        const auto out = [&](std::int64_t t) { return (b * T + t) * s.C + h * D; };
        for (std::int64_t i = 0; i < T; ++i) {
          Doubles p(i + 1), mask(i + 1), dp(i + 1);
          double sum = 0, delta = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < D; ++d) score += qkv[q(i) + d] * qkv[k(j) + d];
            sum += p[j] = std::exp(score / std::sqrt(double(D)));
            const auto element = static_cast<std::uint32_t>((h * T + i) * T + j);
            const bool kept = keep(row_key(kKey, b), element, drop_threshold(dropout));
            mask[j] = kept ? 1 / (1 - double(dropout)) : 0;
          }
          lse[(b * s.H + h) * T + i] = std::log(sum);
          for (std::int64_t j = 0; j <= i; ++j) {
            p[j] /= sum;
            for (std::int64_t d = 0; d < D; ++d) {
              y[out(i) + d] += mask[j] * p[j] * qkv[v(j) + d];
              if (dy.empty()) continue;
              dqkv[v(j) + d] += mask[j] * p[j] * dy[out(i) + d];
              dp[j] += mask[j] * dy[out(i) + d] * qkv[v(j) + d];
            }
            delta += p[j] * dp[j];
          }
          for (std::int64_t j = 0; j <= i; ++j) {
            const double ds = p[j] * (dp[j] - delta) / std::sqrt(double(D));
            for (std::int64_t d = 0; d < D; ++d) {
              dqkv[q(i) + d] += ds * qkv[k(j) + d];
              dqkv[k(j) + d] += ds * qkv[q(i) + d];
            }
          }
        }
      }
    }
  }
  Doubles y, lse, dqkv;
};

// The operands of a call in both directions: packed, with poisoned outputs and scratch of exactly
// the required size.
template <class T>
struct OperandsOf {
  explicit OperandsOf(const Sizes& s, int threads = 1, float dropout = 0)
      : sizes(s),
        qkv(drawn({s.B, s.T, s.row()}, 1, 2)),
        dy(drawn({s.B, s.T, s.C}, 2, 1)),
        y({s.B, s.T, s.C}, poison()),
        dqkv({s.B, s.T, s.row()}, poison()),
        lse({s.B, s.H, s.T}, kPoison),
        scratch({attention_scratch_numel(s.T, threads)}, kPoison),
        stream(testing::stream_of(threads)),
        dropout(dropout) {}

  static T poison() {
    if constexpr (dtype_of<T> == DType::float32) {
      return kPoison;
    } else {
      return to_bfloat16(kPoison);
    }
  }
  static Owned<T> drawn(Shape shape, std::uint32_t seed, float scale) {
    const Owned<float> x = random_tensor(shape, seed, scale);
    if constexpr (dtype_of<T> == DType::float32) {
      return x;
    } else {
      return testing::narrow(x);
    }
  }

  Heads q(Tensor rows) const { return {rows, 0, sizes.H}; }
  Heads k(Tensor rows) const { return {rows, sizes.C, sizes.H_kv}; }
  Heads v(Tensor rows) const { return {rows, sizes.C + sizes.kv(), sizes.H_kv}; }

  AttentionForward forward() {
    return {.q = q(qkv),
            .k = k(qkv),
            .v = v(qkv),
            .y = y,
            .lse = lse,
            .scratch = scratch,
            .dropout = dropout,
            .key = key};
  }
  AttentionBackward backward() {
    return {.dy = dy,
            .q = q(qkv),
            .k = k(qkv),
            .v = v(qkv),
            .y = y,
            .lse = lse,
            .dq = q(dqkv),
            .dk = k(dqkv),
            .dv = v(dqkv),
            .scratch = scratch,
            .dropout = dropout,
            .key = key};
  }
  OperandsOf& run() {
    attention(*stream, forward());
    attention(*stream, backward());
    return *this;
  }

  Sizes sizes;
  Owned<T> qkv, dy, y, dqkv;
  Owned<float> lse, scratch;
  std::unique_ptr<Stream> stream;
  float dropout;
  DropoutKey key = kKey;
};

using Operands = OperandsOf<float>;

}  // namespace nanofsdp::ops::attention_oracle
