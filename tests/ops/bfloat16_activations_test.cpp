#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/layer_norm_oracle.h"
#include "ops/matmul_oracle.h"
#include "support/errors.h"
#include "support/tensors.h"

// A CPU refuses activations of bfloat16. A GPU computes with them in float32 and rounds each result
// once. It never rounds a term of a parameter's gradient.

namespace nanofsdp::ops::bfloat16_activations_test {
namespace {

using testing::narrow;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::rounded;
using testing::stream_of;
using testing::widened;

constexpr bool kArithmetic = has_bfloat16_arithmetic(testing::kDevice);
constexpr double kRounding = 4e-3;  // error of half a unit in the last place
constexpr double kTolerance = testing::tolerance(2e-6);

#define SKIP_WITHOUT_ARITHMETIC() \
  if (!kArithmetic) GTEST_SKIP() << "not on this device"

// Sizes around a pack, a block and a block's elements, with and without a rest after the last pack.
constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 1000, 1025, 8192, 8200, 16391};

Owned<bfloat16> random_narrow(Shape shape, std::uint32_t seed, float scale = 1) {
  return narrow(random_tensor(shape, seed, scale));
}

std::vector<std::uint16_t> bits_of(const Owned<bfloat16>& x) {
  std::vector<std::uint16_t> bits;
  for (const bfloat16 value : x.values) bits.push_back(value.bits);
  return bits;
}

/// x, copied `by` elements further.
struct Moved {
  Moved(const Owned<bfloat16>& x, std::int64_t by)
      : all({x.shape.numel() + by}), of(x.shape), by(by) {
    std::ranges::copy(x.values, all.values.begin() + by);
  }
  operator Tensor() { return all.view().slice(by, of.numel()).view(of); }
  Owned<bfloat16> back() const {
    Owned<bfloat16> x(of);
    std::copy(all.values.begin() + by, all.values.end(), x.values.begin());
    return x;
  }
  Owned<bfloat16> all;
  Shape of;
  std::int64_t by;
};

TEST(Bfloat16Activations, AreRefusedWhereTheDeviceHasNoSuchArithmetic) {
  if (kArithmetic) GTEST_SKIP() << "this device has";
  Owned<std::int32_t> index({1});
  Owned<bfloat16> x({1, 1});
  Owned<float> weight({1, 1}), row({1}), n({1});
  const auto expect_refused = [](const std::string& operand, const auto& run) {
    testing::expect_error<ShapeError>(run, operand + ": expected float32");
  };
  expect_refused("add: a", [&] { add(*stream_of(), {.a = x, .b = x, .out = x}); });
  expect_refused("accumulate: in", [&] { accumulate(*stream_of(), {.in = x, .out = x}); });
  expect_refused("dropout: x", [&] { dropout(*stream_of(), {.x = x, .y = x}); });
  expect_refused("gelu: x", [&] { gelu(*stream_of(), GeluForward{.x = x, .y = x}); });
  expect_refused("gelu: x", [&] { gelu(*stream_of(), GeluBackward{.dy = x, .x = x, .dx = x}); });
  expect_refused("matmul: x", [&] { matmul(*stream_of(), {.x = x, .weight = weight, .y = x}); });
  expect_refused("embedding: y",
                 [&] { embedding(*stream_of(), {.index = index, .weight = weight, .y = x}); });
  expect_refused("layer_norm: x", [&] {
    layer_norm(*stream_of(), {.x = x, .weight = row, .y = x, .mean = n, .rstd = n});
  });
}

TEST(Bfloat16Activations, NeedParametersOfBfloat16AndAllOperandsAlike) {
  SKIP_WITHOUT_ARITHMETIC();
  Owned<bfloat16> x({2, 3}), narrow_weight({5, 3}), y({2, 5});
  Owned<float> weight({5, 3}), wide({2, 3});
  testing::expect_error<ShapeError>(
      [&] { matmul(*stream_of(), {.x = x, .weight = weight, .y = y}); },
      "matmul: weight: expected bfloat16 [5, 3]");
  testing::expect_error<ShapeError>(
      [&] { matmul(*stream_of(), {.x = wide, .weight = narrow_weight, .y = y}); },
      "matmul: y: expected float32 [2, 5]");
  testing::expect_error<ShapeError>([&] { add(*stream_of(), {.a = x, .b = wide, .out = x}); },
                                    "add: b: expected bfloat16");
}

TEST(Bfloat16Activations, AreAddedAndRoundedOnce) {
  SKIP_WITHOUT_ARITHMETIC();
  for (const std::int64_t n : kSizes) {
    for (const std::int64_t by : {0, 1, 4}) {
      Moved a(random_narrow({n}, 1), by), b(random_narrow({n}, 2), by),
          out(Owned<bfloat16>({n}), by);
      const Owned<float> x = widened(a.back()), y = widened(b.back());
      Owned<float> sum = x;
      for (std::int64_t i = 0; i < n; ++i) sum.values[i] += y.values[i];
      add(*stream_of(), {.a = a, .b = b, .out = out});
      EXPECT_EQ(bits_of(out.back()), bits_of(narrow(sum))) << n << " " << by;
      accumulate(*stream_of(), {.in = b, .out = a});
      EXPECT_EQ(bits_of(a.back()), bits_of(narrow(sum))) << n << " " << by;
    }
  }
}

TEST(Bfloat16Activations, AreDroppedByTheSameKey) {
  SKIP_WITHOUT_ARITHMETIC();
  const Shape shape{5, 1030};
  Owned<bfloat16> x = random_narrow(shape, 1), y(shape);
  Owned<float> wide = widened(x), want(shape);
  const DropoutKey key{.seed = 7, .site = 2};
  dropout(*stream_of(), {.x = x, .y = y, .p = 0.3f, .key = key});
  dropout(*stream_of(), {.x = wide, .y = want, .p = 0.3f, .key = key});
  EXPECT_EQ(bits_of(y), bits_of(narrow(want)));
}

// Expects an error of half a unit in the last place, and a little for float32 arithmetic.
void expect_rounded(const Owned<bfloat16>& got, const std::vector<double>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double at = to_float32(got.values[i]);
    ASSERT_NEAR(at, want[i], std::abs(want[i]) * 0x1.02p-8 + 3e-7) << i;
  }
}

TEST(Bfloat16Activations, GoThroughTheExactGelu) {
  SKIP_WITHOUT_ARITHMETIC();
  const auto below = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  const double density = 1 / std::sqrt(2 * std::numbers::pi);
  for (const std::int64_t n : kSizes) {
    for (const float scale : {1e-3f, 1.0f, 6.0f}) {
      Owned<bfloat16> x = random_narrow({n}, 1, scale), dy = random_narrow({n}, 2), y({n}), dx({n});
      std::vector<double> want_y, want_dx;
      for (std::int64_t i = 0; i < n; ++i) {
        const double at = to_float32(x.values[i]), d = to_float32(dy.values[i]);
        want_y.push_back(at * below(at));
        want_dx.push_back(d * (below(at) + at * density * std::exp(-0.5 * at * at)));
      }
      gelu(*stream_of(), GeluForward{.x = x, .y = y});
      gelu(*stream_of(), GeluBackward{.dy = dy, .x = x, .dx = dx});
      expect_rounded(y, want_y);
      expect_rounded(dx, want_dx);
      for (const std::int64_t by : {1, 8}) {
        Moved there(x, by), dy_there(dy, by), to(y, by);
        gelu(*stream_of(), GeluForward{.x = there, .y = to});
        EXPECT_EQ(bits_of(to.back()), bits_of(y));
        gelu(*stream_of(), GeluBackward{.dy = dy_there, .x = there, .dx = dy_there});  // in place
        EXPECT_EQ(bits_of(dy_there.back()), bits_of(dx));
      }
    }
  }
}

struct Normalised {
  Owned<bfloat16> y, dx;
  Owned<float> mean, rstd, dweight, dbias;
};

struct LayerNormCase {
  explicit LayerNormCase(const layer_norm_oracle::Sizes& s, float offset = 0)
      : R(s.R),
        C(s.C),
        x(shifted(s, offset)),
        dy(random_narrow({R, C}, 2)),
        weight(random_narrow({C}, 3)),
        bias(random_narrow({C}, 4)) {}

  static Owned<bfloat16> shifted(const layer_norm_oracle::Sizes& s, float offset) {
    Owned<float> x = random_tensor({s.R, s.C}, 1);
    for (float& value : x.values) value += offset;
    return narrow(x);
  }

  /// Runs with all four tensors `by` elements further, and dx in the memory of dy.
  Normalised run(bool with_bias, std::int64_t by = 0) {
    Normalised r{Owned<bfloat16>({R, C}), Owned<bfloat16>({R, C}), Owned<float>({R}),
                 Owned<float>({R}),       random_tensor({C}, 5),   random_tensor({C}, 6)};
    Moved x_there(x, by), dy_there(dy, by), w_there(weight, by), b_there(bias, by),
        y_there(r.y, by);
    const Tensor shift = with_bias ? Tensor(b_there) : Tensor();
    layer_norm(*stream_of(), {.x = x_there,
                              .weight = w_there,
                              .bias = shift,
                              .y = y_there,
                              .mean = r.mean,
                              .rstd = r.rstd});
    layer_norm(*stream_of(), {.dy = dy_there,
                              .x = x_there,
                              .weight = w_there,
                              .mean = r.mean,
                              .rstd = r.rstd,
                              .dx = dy_there,
                              .dweight = r.dweight,
                              .dbias = with_bias ? r.dbias.view() : Tensor()});
    r.y = y_there.back(), r.dx = dy_there.back();
    return r;
  }

  std::int64_t R, C;
  Owned<bfloat16> x, dy, weight, bias;
};

// Widths for one warp with three packs and four, for teams of two and four warps, and within a
// pack; rows for which no team is left; more rows than blocks.
TEST(Bfloat16Activations, AreNormalisedInFloat32) {
  SKIP_WITHOUT_ARITHMETIC();
  using layer_norm_oracle::Sizes;
  const std::vector<Sizes> few{{1, 1},     {9, 8},    {5, 65},   {19, 384}, {9, 768},
                               {11, 1024}, {3, 1600}, {2, 2051}, {2, 3000}, {2200, 8}};
  const std::vector<Sizes> many{{1, 1},      {70, 65},   {2000, 768}, {2200, 1024},
                                {300, 1600}, {40, 2051}, {3, 12288},  {5000, 24}};
  for (const Sizes& s : testing::kEmulated ? few : many) {
    SCOPED_TRACE(layer_norm_oracle::name(s));
    LayerNormCase c(s, 3);
    const Normalised r = c.run(true);
    const auto doubles = [](const Owned<bfloat16>& t) { return widened(t).doubles(); };
    const auto f = layer_norm_oracle::forward(s, doubles(c.x), doubles(c.weight), doubles(c.bias));
    const auto g = layer_norm_oracle::backward(s, doubles(c.dy), doubles(c.x), doubles(c.weight),
                                               random_tensor({s.C}, 5).doubles(),
                                               random_tensor({s.C}, 6).doubles());
    EXPECT_LE(relative_l2(widened(r.y).values, f.y), kRounding);
    EXPECT_LE(relative_l2(r.mean.values, f.mean), kTolerance);
    EXPECT_LE(relative_l2(r.rstd.values, f.rstd), kTolerance);
    EXPECT_LE(relative_l2(widened(r.dx).values, g.dx), s.C == 1 ? 1e-5 : kRounding);
    EXPECT_LE(relative_l2(r.dweight.values, g.dweight), kTolerance);
    EXPECT_LE(relative_l2(r.dbias.values, g.dbias), kTolerance);
    const Normalised plain = c.run(false);
    EXPECT_LE(relative_l2(plain.dweight.values, g.dweight), kTolerance);
    for (const std::int64_t by : {0, 1}) {  // the second time no pack may begin there
      const Normalised again = c.run(true, by);
      EXPECT_EQ(bits_of(again.y), bits_of(r.y));
      EXPECT_EQ(bits_of(again.dx), bits_of(r.dx));
      EXPECT_LE(relative_l2(again.dweight.values, r.dweight.doubles()), by == 0 ? 0 : 1e-6);
      EXPECT_LE(relative_l2(again.dbias.values, r.dbias.doubles()), by == 0 ? 0 : 1e-6);
    }
  }
}

TEST(Bfloat16Activations, AreLookedUpAsTheyAreAndSummedInFloat32) {
  SKIP_WITHOUT_ARITHMETIC();
  for (const std::int64_t C : {1, 8, 33, 264}) {
    const std::int64_t N = 70, V = 9;
    Owned<std::int32_t> index({N});
    for (std::int64_t n = 0; n < N; ++n) index.values[n] = static_cast<std::int32_t>(n * 5 % V);
    Owned<bfloat16> table = random_narrow({V, C}, 1), y({N, C}), dy = random_narrow({N, C}, 2);
    Owned<float> dweight = random_tensor({V, C}, 3), want = dweight;
    embedding(*stream_of(), {.index = index, .weight = table, .y = y});
    embedding(*stream_of(), EmbeddingBackward{.index = index, .dy = dy, .dweight = dweight});
    for (std::int64_t i = 0; i < N * C; ++i) {
      const std::int64_t at = index.values[i / C] * C + i % C;
      ASSERT_EQ(y.values[i].bits, table.values[at].bits) << i;
      want.values[at] += to_float32(dy.values[i]);
    }
    EXPECT_EQ(dweight.values, want.values);
  }
}

TEST(Bfloat16Activations, AreMultipliedAndWhatIsAddedToGradientsIsNotRounded) {
  SKIP_WITHOUT_ARITHMETIC();
  using namespace matmul_oracle;
  for (const Sizes& s : {Sizes{1, 1, 1}, {1, 7, 5}, {17, 33, 29}, {64, 128, 72}, {257, 104, 32}}) {
    SCOPED_TRACE(std::to_string(s.N));
    Operands o(s);
    const Operands before(s);
    Owned<bfloat16> x = narrow(o.x), weight = narrow(o.weight), bias = narrow(o.bias),
                    dy = narrow(o.dy);
    Owned<bfloat16> y({s.N, s.M}), dx({s.N, s.K});
    matmul(*stream_of(), {.x = x, .weight = weight, .bias = bias, .y = y});
    MatmulBackward a = o.backward();
    a.dy = dy, a.x = x, a.weight = weight, a.dx = dx;
    matmul(*stream_of(), a);
    const auto doubles = [](const Owned<bfloat16>& t) { return widened(t).doubles(); };
    EXPECT_LE(
        relative_l2(widened(y).values, forward(s, doubles(x), doubles(weight), doubles(bias))),
        kRounding);
    const Gradients g = backward(s, doubles(dy), doubles(x), doubles(weight),
                                 before.dweight.doubles(), before.dbias.doubles());
    EXPECT_LE(relative_l2(widened(dx).values, g.dx), kRounding);
    EXPECT_LE(relative_l2(o.dweight.values, g.dweight), kTolerance);
    EXPECT_LE(relative_l2(o.dbias.values, g.dbias), kTolerance);
  }
}

}  // namespace
}  // namespace nanofsdp::ops::bfloat16_activations_test
