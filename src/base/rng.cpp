#include "base/rng.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dropout_key.h"

// This file is compiled with -ffp-contract=off, so a product and a sum are fused only by std::fma.

namespace nanofsdp {
namespace {

constexpr std::size_t kWords = 624;   // size of MT19937's state
constexpr std::size_t kMiddle = 397;  // distance of the word that MT19937 mixes in
constexpr std::size_t kBlock = 16;    // elements of one block of normal(): two AVX vectors

// normal() does not use libm's elementary functions. It uses the single-precision polynomials of
// Moshier's Cephes library as they are in PyTorch's avx_mathfun.h (G. Garberoglio, after J.
// Pommier's sse_mathfun), with products and sums fused as the compiler does it there.

// log(x) for 0 < x <= 1. With x = 2^e * m and sqrt(1/2) <= m < sqrt(2), it is a polynomial in m -
// 1.
float log_cephes(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffff) | 0x3f000000);  // in [1/2, 1)
  const bool low = mantissa < 0.707106781186547524f;
  const float e = low ? exponent - 1 : exponent;
  const float m = low ? (mantissa - 1) + mantissa : mantissa - 1;
  const float z = m * m;
  float y = 7.0376836292e-2f;
  for (const float c : {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                        -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f})
    y = std::fma(y, m, c);
  y = y * m;
  y = std::fma(y, z, e * -2.12194440e-4f);  // log(2) is added in two parts, the small one first
  y = std::fma(-z, 0.5f, y);
  return std::fma(e, 0.693359375f, m + y);
}

// sin(x) and cos(x) for x >= 0. A multiple of pi/4 is subtracted from x (in three parts). Two
// polynomials of the rest are computed. The octant decides which of them is the sine, and the
// signs.
std::pair<float, float> sincos_cephes(float x) {
  const std::int32_t octant = (static_cast<std::int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float y = static_cast<float>(octant);
  x = std::fma(y, -0.78515625f, x);
  x = std::fma(y, -2.4187564849853515625e-4f, x);
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f);
  c = c * z;
  c = std::fma(c, z, -(z * 0.5f));
  c = c + 1;
  float s = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f);
  s = s * z;
  s = std::fma(s, x, x);
  const bool swapped = (octant & 2) != 0;
  const float sine = swapped ? c : s, cosine = swapped ? s : c;
  return {(octant & 4) != 0 ? -sine : sine, (~(octant - 2) & 4) != 0 ? -cosine : cosine};
}

// Replaces sixteen uniform numbers by sixteen normal ones.
void normal_block(float* d, float mean, float stddev) {
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    const float r = std::sqrt(-2.0f * log_cephes(1.0f - d[j]));
    const auto [sine, cosine] = sincos_cephes(2.0f * std::numbers::pi_v<float> * d[j + 8]);
    d[j] = std::fma(r * cosine, stddev, mean);
    d[j + 8] = std::fma(r * sine, stddev, mean);
  }
}

}  // namespace

void Generator::seed(std::uint64_t seed) {
  state_ = {};
  auto& x = state_.words;
  x[0] = static_cast<std::uint32_t>(seed);
  for (std::uint32_t i = 1; i < kWords; ++i) x[i] = 1812433253u * (x[i - 1] ^ (x[i - 1] >> 30)) + i;
}

void Generator::make_words() {
  auto& x = state_.words;
  const auto mix = [&x](std::size_t i, std::size_t next, std::size_t middle) {
    const std::uint32_t y = (x[i] & 0x80000000u) | (x[next] & 0x7fffffffu);
    x[i] = x[middle] ^ (y >> 1) ^ ((y & 1) * 0x9908b0dfu);
  };
  for (std::size_t i = 0; i < kWords - kMiddle; ++i) mix(i, i + 1, i + kMiddle);
  for (std::size_t i = kWords - kMiddle; i < kWords - 1; ++i) mix(i, i + 1, i + kMiddle - kWords);
  mix(kWords - 1, 0, kMiddle - 1);
  state_.position = 0;
}

std::uint32_t Generator::random() {
  if (state_.position == kWords) make_words();
  std::uint32_t y = state_.words[state_.position++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

std::uint64_t Generator::random64() {
  const std::uint64_t high = random();
  return high << 32 | random();
}

float Generator::uniform() { return static_cast<float>(random() & 0xffffff) * 0x1p-24f; }

double Generator::uniform_double() {
  return static_cast<double>(random64() & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
}

void Generator::uniform(std::span<float> out, float lo, float hi) {
  NANOFSDP_CHECK(lo <= hi, .what = "uniform", .expected = "lo <= hi",
                 .got = fmt::format("lo = {}, hi = {}", lo, hi));
  const float range = hi - lo;
  for (float& x : out) x = std::fma(uniform(), range, lo);
}

void Generator::normal(std::span<float> out, double mean, double stddev) {
  NANOFSDP_CHECK(stddev >= 0, .what = "normal", .expected = "a standard deviation >= 0",
                 .got = fmt::to_string(stddev));
  if (out.size() >= kBlock) {
    for (float& x : out) x = uniform();
    for (std::size_t i = 0; i + kBlock <= out.size(); i += kBlock)
      normal_block(&out[i], static_cast<float>(mean), static_cast<float>(stddev));
    if (out.size() % kBlock != 0) normal(out.last(kBlock), mean, stddev);
    return;
  }
  for (float& x : out) {
    double unit = state_.cached_normal;
    if (std::exchange(state_.has_cached_normal, 0) == 0) {
      const double t = 2 * std::numbers::pi * uniform_double();
      const double r = std::sqrt(-2 * std::log1p(-uniform_double()));
      unit = r * std::cos(t);
      state_.cached_normal = r * std::sin(t);
      state_.has_cached_normal = 1;
    }
    x = static_cast<float>(std::fma(unit, stddev, mean));
  }
}

std::int64_t Generator::randint(std::uint64_t high) {
  constexpr std::uint64_t most = std::uint64_t{1} << 63;
  NANOFSDP_CHECK(high >= 1 && high <= most, .what = "randint",
                 .expected = "an upper end in [1, 2^63]", .got = fmt::to_string(high));
  return static_cast<std::int64_t>((high >= kRandint64 ? random64() : random()) % high);
}

void Generator::exponential(std::span<float> out) {
  for (float& x : out) x = static_cast<float>(-std::log(1 - uniform_double()));
}

std::int64_t Generator::multinomial(std::span<const float> probabilities) {
  const auto is_proper = [](float p) { return p >= 0 && std::isfinite(p); };
  const bool proper = std::ranges::all_of(probabilities, is_proper);
  const bool possible = std::ranges::any_of(probabilities, [](float p) { return p > 0; });
  NANOFSDP_CHECK(proper && possible, .what = "multinomial",
                 .expected = "finite probabilities, none negative, one positive",
                 .hint = "are the logits finite?");
  std::vector<float> scores(probabilities.size());
  exponential(scores);
  const auto score = [](float p, float q) { return p == 0 ? 0 : p / q; };  // q may be 0 as well
  std::transform(probabilities.begin(), probabilities.end(), scores.begin(), scores.begin(), score);
  return std::ranges::max_element(scores) - scores.begin();
}

void Generator::discard(std::int64_t words) {
  NANOFSDP_CHECK(words >= 0, .what = "discard", .expected = "a count >= 0",
                 .got = fmt::to_string(words));
  while (words > 0) {
    if (state_.position == kWords) make_words();
    const std::int64_t step = std::min<std::int64_t>(words, kWords - state_.position);
    state_.position += static_cast<std::uint32_t>(step);
    words -= step;
  }
}

void Generator::discard_normal(std::int64_t numel) {
  constexpr auto block = static_cast<std::int64_t>(kBlock);
  if (numel < 0 || numel >= block) {
    discard(numel);  // throws if the count is negative
    if (numel % block != 0) discard(block);
    return;
  }
  // The pairs must be made, because the last value becomes the cached normal.
  std::array<float, kBlock> unused;
  normal(std::span(unused).first(static_cast<std::size_t>(numel)), 0, 1);
}

void Generator::set_state(const GeneratorState& state) {
  const bool dead = std::ranges::max(std::span(state.words).subspan(1)) == 0;
  NANOFSDP_CHECK(state.position <= kWords && state.has_cached_normal <= 1 &&
                     std::isfinite(state.cached_normal) && !dead,
                 .what = "generator state",
                 .expected = "position <= 624, has_cached_normal 0 or 1, a finite normal, words",
                 .got = fmt::format("position {}, has_cached_normal {}, normal {}{}",
                                    state.position, state.has_cached_normal, state.cached_normal,
                                    dead ? ", words 1 to 623 all zero" : ""),
                 .hint = "the checkpoint is damaged");
  state_ = state;
}

float kaiming_uniform_bound(std::int64_t fan_in) {
  NANOFSDP_CHECK(fan_in >= 1, .what = "kaiming_uniform_bound", .expected = "fan_in >= 1",
                 .got = fmt::to_string(fan_in));
  const double a = std::sqrt(5.0);
  const double stddev = std::sqrt(2 / (1 + a * a)) / std::sqrt(static_cast<double>(fan_in));
  return static_cast<float>(std::sqrt(3.0) * stddev);
}

std::uint32_t drop_threshold(double p) {
  NANOFSDP_CHECK(p >= 0 && p < 1, .what = "dropout", .expected = "a probability in [0, 1)",
                 .got = std::to_string(p));
  const double scaled = p * 0x1p32 + 0.5;
  return scaled < 0x1p32 ? static_cast<std::uint32_t>(scaled) : 0xffffffffu;
}

}  // namespace nanofsdp
