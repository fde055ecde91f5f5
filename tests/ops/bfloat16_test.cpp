#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/check.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/matmul_oracle.h"
#include "support/errors.h"
#include "support/tensors.h"

// A CPU refuses parameters of bfloat16, and a GPU computes with them.

namespace nanofsdp::ops::bfloat16_test {
namespace {

using testing::narrow;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::rounded;
using testing::stream_of;

constexpr bool kArithmetic = has_bfloat16_arithmetic(testing::kDevice);
constexpr double kTolerance = testing::tolerance(2e-6);
constexpr double kRounding = 1e-2;

TEST(Bfloat16Parameters, AreRefusedWhereTheDeviceHasNoSuchArithmetic) {
  if (kArithmetic) GTEST_SKIP() << "this device has";
  const auto expect_refused = [](const std::string& operand, const auto& run) {
    testing::expect_error<ShapeError>(run, operand + ": expected float32");
  };
  Owned<std::int32_t> index({1});
  Owned<float> x({1, 1}), y({1, 1}), n({1});
  Owned<bfloat16> weight({1, 1}), row({1});
  expect_refused("matmul: weight",
                 [&] { matmul(*stream_of(), {.x = x, .weight = weight, .y = y}); });
  expect_refused("layer_norm: weight", [&] {
    layer_norm(*stream_of(), {.x = x, .weight = row, .y = y, .mean = n, .rstd = n});
  });
  expect_refused("embedding: weight",
                 [&] { embedding(*stream_of(), {.index = index, .weight = weight, .y = y}); });
}

// x and dy are rounded like the parameters. The sums are not rounded, and neither are the terms of
// the bias gradient.
TEST(Bfloat16Parameters, RoundWhatMatmulMultipliesThemWithAndNothingElse) {
  using namespace matmul_oracle;
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  for (const Sizes& s : {Sizes{1, 1, 1}, {1, 7, 5}, {17, 33, 29}, {64, 128, 384}, {257, 100, 31}}) {
    SCOPED_TRACE(std::to_string(s.N));
    Operands o(s);
    const Operands before(s);
    Owned<bfloat16> weight = narrow(o.weight), bias = narrow(o.bias);
    const auto stream = stream_of();
    matmul(*stream, o.forward());  // the same product in float32 uses another kernel
    matmul(*stream, {.x = o.x, .weight = weight, .bias = bias, .y = o.y});
    MatmulBackward a = o.backward();
    a.weight = weight;
    matmul(*stream, a);
    const auto expect_near = [&](const Doubles& x, const Doubles& w, const Doubles& b,
                                 const Doubles& dy, double tolerance) {
      EXPECT_LE(relative_l2(o.y.values, forward(s, x, w, b)), tolerance);
      const Gradients g = backward(s, dy, x, w, before.dweight.doubles(), before.dbias.doubles());
      EXPECT_LE(relative_l2(o.dx.values, g.dx), tolerance);
      EXPECT_LE(relative_l2(o.dweight.values, g.dweight), tolerance);
    };
    expect_near(rounded(o.x).doubles(), rounded(o.weight).doubles(), rounded(o.bias).doubles(),
                rounded(o.dy).doubles(), kTolerance);
    expect_near(o.x.doubles(), o.weight.doubles(), o.bias.doubles(), o.dy.doubles(), kRounding);
    const Gradients g = backward(s, o.dy.doubles(), o.x.doubles(), o.weight.doubles(),
                                 before.dweight.doubles(), before.dbias.doubles());
    EXPECT_LE(relative_l2(o.dbias.values, g.dbias), kTolerance);
    EXPECT_EQ(o.x.values, before.x.values);
    EXPECT_EQ(o.dy.values, before.dy.values);
  }
}

// The results may differ by single roundings, because a compiler may fuse a product and a sum in
// one kernel and not in the other.
TEST(Bfloat16Parameters, AreToLayerNormTheSameNumbersInFloat32) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  const std::int64_t R = 70, C = 65;
  Owned<float> x = random_tensor({R, C}, 1), dy = random_tensor({R, C}, 2);
  const Owned<float> drawn = random_tensor({C}, 3), shift = random_tensor({C}, 4);
  struct Results {
    Owned<float> y{{R, C}}, dx{{R, C}}, mean{{R}}, rstd{{R}}, dweight{{C}}, dbias{{C}};
  };
  const auto run = [&](Tensor weight, Tensor bias) {
    Results r;
    layer_norm(*stream_of(),
               {.x = x, .weight = weight, .bias = bias, .y = r.y, .mean = r.mean, .rstd = r.rstd});
    layer_norm(*stream_of(), {.dy = dy,
                              .x = x,
                              .weight = weight,
                              .mean = r.mean,
                              .rstd = r.rstd,
                              .dx = r.dx,
                              .dweight = r.dweight,
                              .dbias = r.dbias});
    return r;
  };
  const Results got = run(narrow(drawn), narrow(shift)), want = run(rounded(drawn), rounded(shift));
  EXPECT_LE(relative_l2(got.y.values, want.y.doubles()), 1e-6);
  EXPECT_LE(relative_l2(got.dx.values, want.dx.doubles()), 1e-6);
  EXPECT_LE(relative_l2(got.dweight.values, want.dweight.doubles()), 1e-6);
  EXPECT_LE(relative_l2(got.dbias.values, want.dbias.doubles()), 1e-6);
}

TEST(Bfloat16Parameters, AreWidenedByEmbedding) {
  if (!kArithmetic) GTEST_SKIP() << "not on this device";
  const std::int64_t N = 64, V = 64, C = 33;
  Owned<std::int32_t> index({N});
  std::mt19937 bits(7);
  for (std::int32_t& i : index.values) i = static_cast<std::int32_t>(bits() % V);
  const Owned<float> table = random_tensor({V, C}, 1);
  Owned<float> got({N, C}), want({N, C});
  embedding(*stream_of(), {.index = index, .weight = narrow(table), .y = got});
  embedding(*stream_of(), {.index = index, .weight = rounded(table), .y = want});
  EXPECT_EQ(got.values, want.values);
}

}  // namespace
}  // namespace nanofsdp::ops::bfloat16_test
