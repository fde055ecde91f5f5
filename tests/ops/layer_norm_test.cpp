#include "ops/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "ops/layer_norm_oracle.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::layer_norm_test {
namespace {

using namespace layer_norm_oracle;
using testing::expect_error;
using testing::finite_differences;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::stream_of;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = testing::tolerance(2e-6);

// One element; one row; one column; odd sizes; the models' sizes; more columns than one thread's
// part; more rows than one block.
constexpr Sizes kFew[] = {{1, 1}, {1, 7}, {5, 1}, {3, 17}, {70, 65}, {130, 9}, {2, 264}};
constexpr Sizes kMany[] = {{1, 1},     {1, 7},    {5, 1},     {3, 17},   {70, 65},   {33, 384},
                           {130, 768}, {2, 1024}, {40, 2051}, {768, 65}, {1500, 128}};
constexpr std::span<const Sizes> kSizes = testing::kEmulated ? std::span<const Sizes>(kFew) : kMany;

// These sizes are for the oracle alone.
constexpr Sizes kWide[] = {{9, 768}, {300, 33}, {2, 2051}, {1030, 3}};
constexpr Sizes kWider[] = {{3, 12288}, {70000, 24}};
constexpr std::span<const Sizes> kLarge =
    testing::kEmulated ? std::span<const Sizes>(kWide) : kWider;

// The operands of both directions: random inputs, poisoned outputs, and gradients of parameters
// that are not zero before the call.
struct Operands {
  explicit Operands(const Sizes& s, float spread = 1, float offset = 0)
      : x(random_tensor({s.R, s.C}, 1, spread)),
        weight(random_tensor({s.C}, 2)),
        bias(random_tensor({s.C}, 3)),
        dy(random_tensor({s.R, s.C}, 4)),
        y({s.R, s.C}, kPoison),
        dx({s.R, s.C}, kPoison),
        mean({s.R}, kPoison),
        rstd({s.R}, kPoison),
        dweight(random_tensor({s.C}, 5)),
        dbias(random_tensor({s.C}, 6)) {
    for (float& value : x.values) value += offset;
  }

  LayerNormForward forward() {
    return {.x = x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd};
  }
  LayerNormBackward backward() {
    return {.dy = dy,
            .x = x,
            .weight = weight,
            .mean = mean,
            .rstd = rstd,
            .dx = dx,
            .dweight = dweight,
            .dbias = dbias};
  }
  void run(int threads = 1) {
    const auto stream = stream_of(threads);
    layer_norm(*stream, forward());
    layer_norm(*stream, backward());
  }

  Owned<float> x, weight, bias, dy, y, dx, mean, rstd, dweight, dbias;
};

void expect_oracle(const Sizes& s, Operands& o, double tolerance) {
  Operands in = o;
  o.run();
  const Normalised f = forward(s, in.x.doubles(), in.weight.doubles(), in.bias.doubles());
  EXPECT_LE(relative_l2(o.y.values, f.y), tolerance);
  for (std::int64_t r = 0; r < s.R; ++r) {
    EXPECT_NEAR(o.mean.values[r], f.mean[r], tolerance / f.rstd[r]) << "beside the row's spread";
  }
  EXPECT_LE(relative_l2(o.rstd.values, f.rstd), tolerance);
  const Gradients g = backward(s, in.dy.doubles(), in.x.doubles(), in.weight.doubles(),
                               in.dweight.doubles(), in.dbias.doubles());
  // A row of one element gives zero, except for the last digits times a large rstd.
  EXPECT_LE(relative_l2(o.dx.values, g.dx), s.C == 1 ? 1e-5 : tolerance);
  EXPECT_LE(relative_l2(o.dweight.values, g.dweight), tolerance);
  EXPECT_LE(relative_l2(o.dbias.values, g.dbias), tolerance);
  EXPECT_EQ(o.x.values, in.x.values);
  EXPECT_EQ(o.dy.values, in.dy.values);
  EXPECT_EQ(o.weight.values, in.weight.values);
}

TEST(LayerNorm, BothDirectionsEqualTheOracle) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name(s));
    Operands o(s);
    expect_oracle(s, o, kTolerance);
  }
  for (const Sizes& s : kLarge) {
    SCOPED_TRACE(name(s));
    Operands o(s);
    expect_oracle(s, o, kTolerance);
  }
}

// Rows in which eps decides, rows with a small spread beside a large mean, and rows with one large
// element.
TEST(LayerNorm, HoldsForTinyVarianceRowsFarFromZeroAndOutliers) {
  const Sizes s{20, 384};
  Operands tiny(s, 1e-4f), far(s, 1, 10), outlier(s);
  for (std::int64_t r = 0; r < s.R; ++r) outlier.x.values[r * s.C] = 1000;
  for (Operands* o : {&tiny, &far, &outlier}) expect_oracle(s, *o, kTolerance);
  // The mean has the digits of the other elements, not those of the large one.
  for (std::int64_t r = 0; r < s.R; ++r) {
    const std::span row = std::span(outlier.x.values).subspan(r * s.C, s.C);
    double sum = 0, spread = 0;
    for (const float x : row) sum += x;
    for (const float x : row) spread += std::abs(x - sum / s.C) / s.C;
    EXPECT_NEAR(outlier.mean.values[r], sum / s.C, 1e-6 * spread);
  }
}

TEST(LayerNorm, AConstantRowBecomesTheBias) {
  for (const float value : {0.1f, -0.7f, 3.3f, 1e3f}) {
    const Sizes s{3, 77};
    Operands o(s, 0, value);
    o.run();
    for (std::int64_t i = 0; i < s.R * s.C; ++i) EXPECT_EQ(o.y.values[i], o.bias.values[i % s.C]);
    EXPECT_EQ(o.mean.values, Owned<float>({3}, value).values);
    EXPECT_EQ(o.rstd.values, Owned<float>({3}, 1 / std::sqrt(kLayerNormEps)).values);
  }
}

TEST(LayerNorm, BackwardIsTheDerivative) {
  const Sizes s{3, 5};
  Operands o(s);
  o.dweight = Owned<float>({s.C});
  o.dbias = Owned<float>({s.C});
  o.run();
  const Doubles dy = o.dy.doubles(), x = o.x.doubles(), w = o.weight.doubles(),
                b = o.bias.doubles();
  const auto loss = [&](const Doubles& x, const Doubles& w, const Doubles& b) {
    const Doubles y = forward(s, x, w, b).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  };
  const auto of_x = finite_differences(x, [&](const Doubles& at) { return loss(at, w, b); });
  const auto of_w = finite_differences(w, [&](const Doubles& at) { return loss(x, at, b); });
  const auto of_b = finite_differences(b, [&](const Doubles& at) { return loss(x, w, at); });
  EXPECT_LE(relative_l2(o.dx.values, of_x), kTolerance);
  EXPECT_LE(relative_l2(o.dweight.values, of_w), kTolerance);
  EXPECT_LE(relative_l2(o.dbias.values, of_b), kTolerance);
}

TEST(LayerNorm, ABiasMayBeLeftOut) {
  const Sizes s{9, 33};
  Operands o(s), whole(s);
  whole.run();
  const auto stream = stream_of(1);
  LayerNormForward f = o.forward();
  LayerNormBackward b = o.backward();
  f.bias = b.dbias = {};
  layer_norm(*stream, f);
  layer_norm(*stream, b);
  EXPECT_LE(relative_l2(o.y.values, forward(s, o.x.doubles(), o.weight.doubles(), {}).y),
            kTolerance);
  EXPECT_EQ(o.dx.values, whole.dx.values);
  EXPECT_EQ(o.dweight.values, whole.dweight.values);
}

TEST(LayerNorm, GradientsOfParametersMayBeUnwanted) {
  const Sizes s{9, 33};
  Operands none(s), bias_only(s), whole(s);
  whole.run();
  const auto stream = stream_of(1);
  layer_norm(*stream, none.forward());
  layer_norm(*stream, bias_only.forward());
  LayerNormBackward b = none.backward();
  b.dweight = b.dbias = {};
  layer_norm(*stream, b);
  EXPECT_EQ(none.dx.values, whole.dx.values);
  b = bias_only.backward();
  b.dweight = {};
  layer_norm(*stream, b);
  EXPECT_EQ(bias_only.dbias.values, whole.dbias.values);
}

TEST(LayerNorm, InPlaceGivesTheSameBits) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name(s));
    Operands apart(s), in_place(s);
    apart.run();
    const auto stream = stream_of(1);
    LayerNormForward f = in_place.forward();
    f.y = in_place.x;
    layer_norm(*stream, f);
    EXPECT_EQ(in_place.x.values, apart.y.values);

    in_place.x = apart.x;
    LayerNormBackward b = in_place.backward();
    b.dx = in_place.dy;
    layer_norm(*stream, b);
    EXPECT_EQ(in_place.dy.values, apart.dx.values);
    EXPECT_EQ(in_place.dweight.values, apart.dweight.values);
    EXPECT_EQ(in_place.dbias.values, apart.dbias.values);
  }
}

TEST(LayerNorm, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name(s));
    Operands one(s);
    one.run(1);
    for (const int threads : {2, 3}) {
      Operands many(s);
      many.run(threads);
      EXPECT_EQ(many.y.values, one.y.values);
      EXPECT_EQ(many.dx.values, one.dx.values);
      EXPECT_EQ(many.dweight.values, one.dweight.values);
      EXPECT_EQ(many.dbias.values, one.dbias.values);
    }
  }
}

// The place of a row in memory changes no bit.
TEST(LayerNorm, ARowsPlaceChangesNoBit) {
  for (const std::int64_t C : {77, 80}) {  // 80 columns can be read in packs, in some places
    const Sizes s{1, C};
    Operands o(s);
    o.run();
    const auto stream = stream_of(1);
    for (std::int64_t at = 0; at < 16; ++at) {
      Owned<float> x({at + s.C}), y({at + s.C}), dy({at + s.C}), dx({at + s.C});
      std::copy(o.x.values.begin(), o.x.values.end(), x.values.begin() + at);
      std::copy(o.dy.values.begin(), o.dy.values.end(), dy.values.begin() + at);
      const auto placed = [&](Owned<float>& t) { return t.view().slice(at, s.C).view({1, s.C}); };
      LayerNormForward f = o.forward();
      LayerNormBackward b = o.backward();
      f.x = b.x = placed(x);
      f.y = placed(y);
      b.dy = placed(dy);
      b.dx = placed(dx);
      layer_norm(*stream, f);
      layer_norm(*stream, b);
      EXPECT_TRUE(std::equal(o.y.values.begin(), o.y.values.end(), y.values.begin() + at)) << at;
      EXPECT_TRUE(std::equal(o.dx.values.begin(), o.dx.values.end(), dx.values.begin() + at)) << at;
    }
  }
}

TEST(LayerNorm, AnErrorNamesTheOperand) {
  const auto stream = stream_of(1);
  Operands o({4, 6});
  Owned<float> wrong({5});
  Owned<double> doubles({6});
  const auto expect_forward = [&](Tensor LayerNormForward::*operand, const char* words) {
    LayerNormForward a = o.forward();
    a.*operand = wrong;
    expect_error<ShapeError>([&] { layer_norm(*stream, a); }, words);
  };
  expect_forward(&LayerNormForward::x, "layer_norm: x: expected float32 of 2 dimensions on");
  expect_forward(&LayerNormForward::weight, "layer_norm: weight: expected float32 [6]");
  expect_forward(&LayerNormForward::bias, "layer_norm: bias");
  expect_forward(&LayerNormForward::rstd, "layer_norm: rstd");
  for (const auto& [operand, words] : {std::pair{&LayerNormBackward::dy, "layer_norm: dy"},
                                       {&LayerNormBackward::weight, "layer_norm: weight"},
                                       {&LayerNormBackward::dx, "layer_norm: dx"},
                                       {&LayerNormBackward::dweight, "layer_norm: dweight"},
                                       {&LayerNormBackward::dbias, "layer_norm: dbias"}}) {
    LayerNormBackward a = o.backward();
    a.*operand = wrong;
    expect_error<ShapeError>([&] { layer_norm(*stream, a); }, words);
    a.*operand = doubles;
    expect_error<ShapeError>([&] { layer_norm(*stream, a); }, words);
  }
  LayerNormForward absent = o.forward();
  absent.weight = {};
  expect_error<ShapeError>([&] { layer_norm(*stream, absent); }, ", got nothing");
}

}  // namespace
}  // namespace nanofsdp::ops::layer_norm_test
