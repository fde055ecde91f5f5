#include "ops/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/matmul_oracle.h"
#include "support/tensors.h"

namespace nanofsdp::ops::matmul_test {
namespace {

using namespace matmul_oracle;
using testing::finite_differences;
using testing::Owned;
using testing::random_tensor;
using testing::relative_l2;
using testing::stream_of;

constexpr double kTolerance = testing::tolerance(2e-6);

// One element; odd sizes; one row; one column; the 65 classes of a head; products that threads cut
// by rows and by columns; depths of more than one block.
constexpr Sizes kSizes[] = {{1, 1, 1},      {1, 7, 5},     {1, 384, 130},  {130, 384, 1},
                            {3, 5, 1},      {17, 33, 29},  {768, 128, 65}, {64, 128, 384},
                            {257, 100, 31}, {2, 96, 2000}, {2, 2000, 96},  {90, 2000, 2},
                            {33, 3000, 65}};

std::string name(const Sizes& s, int threads) {
  return "N=" + std::to_string(s.N) + " K=" + std::to_string(s.K) + " M=" + std::to_string(s.M) +
         " threads=" + std::to_string(threads);
}

TEST(Matmul, ForwardEqualsTheOracle) {
  for (const Sizes& s : kSizes) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(name(s, threads));
      const auto stream = stream_of(threads);
      Operands o(s);
      const Operands before(s);
      matmul(*stream, o.forward());
      EXPECT_LE(
          relative_l2(o.y.values, forward(s, o.x.doubles(), o.weight.doubles(), o.bias.doubles())),
          kTolerance);
      std::ranges::fill(o.y.values, kPoison);
      matmul(*stream, {.x = o.x, .weight = o.weight, .y = o.y});
      EXPECT_LE(relative_l2(o.y.values, forward(s, o.x.doubles(), o.weight.doubles(), {})),
                kTolerance);
      EXPECT_EQ(o.x.values, before.x.values);
      EXPECT_EQ(o.weight.values, before.weight.values);
      EXPECT_EQ(o.bias.values, before.bias.values);
    }
  }
}

TEST(Matmul, BackwardWritesDxAndAddsToTheGradientsOfParameters) {
  for (const Sizes& s : kSizes) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(name(s, threads));
      Operands o(s);
      const Operands before(s);
      matmul(*stream_of(threads), o.backward());
      const Gradients want =
          backward(s, before.dy.doubles(), before.x.doubles(), before.weight.doubles(),
                   before.dweight.doubles(), before.dbias.doubles());
      EXPECT_LE(relative_l2(o.dx.values, want.dx), kTolerance);
      EXPECT_LE(relative_l2(o.dweight.values, want.dweight), kTolerance);
      EXPECT_LE(relative_l2(o.dbias.values, want.dbias), kTolerance);
      EXPECT_EQ(o.dy.values, before.dy.values);
      EXPECT_EQ(o.x.values, before.x.values);
      EXPECT_EQ(o.weight.values, before.weight.values);
    }
  }
}

// The oracle's backward is compared with differences of its forward, so a mistake in both backward
// passes would show.
TEST(Matmul, BackwardIsTheDerivative) {
  const Sizes s{3, 5, 4};
  Operands o(s);
  const Doubles x = o.x.doubles(), weight = o.weight.doubles(), bias = o.bias.doubles();
  const Doubles dy = o.dy.doubles();
  const auto loss = [&](const Doubles& y) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  };
  const Doubles by_x =
      finite_differences(x, [&](const Doubles& v) { return loss(forward(s, v, weight, bias)); });
  const Doubles by_weight =
      finite_differences(weight, [&](const Doubles& v) { return loss(forward(s, x, v, bias)); });
  const Doubles by_bias =
      finite_differences(bias, [&](const Doubles& v) { return loss(forward(s, x, weight, v)); });

  std::ranges::fill(o.dweight.values, 0.0f);
  std::ranges::fill(o.dbias.values, 0.0f);
  matmul(*stream_of(1), o.backward());
  EXPECT_LE(relative_l2(o.dx.values, by_x), kTolerance);
  EXPECT_LE(relative_l2(o.dweight.values, by_weight), kTolerance);
  EXPECT_LE(relative_l2(o.dbias.values, by_bias), kTolerance);
}

TEST(Matmul, LeavesOutWhatNobodyNeeds) {
  const Sizes s{6, 5, 7};
  Operands all(s);
  matmul(*stream_of(1), all.backward());
  for (int left_out = 0; left_out < 8; ++left_out) {
    Operands o(s);
    const Operands before(s);
    MatmulBackward a = o.backward();
    if (left_out & 1) a.dx = {};
    if (left_out & 2) a.dweight = {};
    if (left_out & 4) a.dbias = {};
    matmul(*stream_of(1), a);
    if (!(left_out & 1)) {
      EXPECT_EQ(o.dx.values, all.dx.values);
    }
    EXPECT_EQ(o.dweight.values, left_out & 2 ? before.dweight.values : all.dweight.values);
    EXPECT_EQ(o.dbias.values, left_out & 4 ? before.dbias.values : all.dbias.values);
  }
}

TEST(Matmul, ABatchWithoutRowsChangesNothing) {
  const Sizes s{0, 5, 7};
  Operands o(s);
  const Operands before(s);
  matmul(*stream_of(2), o.forward());
  matmul(*stream_of(2), o.backward());
  EXPECT_EQ(o.dweight.values, before.dweight.values);
  EXPECT_EQ(o.dbias.values, before.dbias.values);
}

// The bits depend on values, shapes and the number of threads. They do not depend on the run or on
// where operands lie, because parameters move between shards, slots of a pool, and strategies.
TEST(Matmul, SameBitsOnEveryRunAndAtEveryAddress) {
  const auto moved = [](const Owned<float>& x, std::int64_t by) {
    Owned<float> copy({x.shape.numel() + by}, kPoison);
    std::ranges::copy(x.values, copy.values.begin() + by);
    return copy;
  };
  for (const Sizes& s : kSizes) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(name(s, threads));
      const auto stream = stream_of(threads);
      Operands first(s);
      matmul(*stream, first.forward());
      matmul(*stream, first.backward());
      for (const std::int64_t by : {0, 1, 3, 8}) {
        Operands o(s);
        Owned<float> x = moved(o.x, by), weight = moved(o.weight, by), bias = moved(o.bias, by);
        Owned<float> dy = moved(o.dy, by), y = moved(o.y, by), dx = moved(o.dx, by);
        Owned<float> dweight = moved(o.dweight, by), dbias = moved(o.dbias, by);
        const auto at = [by](Owned<float>& moved, const Owned<float>& as) {
          return Tensor(moved.values.data() + by, as.shape, DType::float32, testing::kDevice);
        };
        matmul(*stream, {.x = at(x, o.x),
                         .weight = at(weight, o.weight),
                         .bias = at(bias, o.bias),
                         .y = at(y, o.y)});
        matmul(*stream, MatmulBackward{.dy = at(dy, o.dy),
                                       .x = at(x, o.x),
                                       .weight = at(weight, o.weight),
                                       .dx = at(dx, o.dx),
                                       .dweight = at(dweight, o.dweight),
                                       .dbias = at(dbias, o.dbias)});
        const auto same = [by](const Owned<float>& moved, const Owned<float>& as) {
          // cuBLAS uses other kernels there, with nearly equal results.
          if (testing::kDevice == Device::cuda && by % 4 != 0) {
            return relative_l2(std::span(moved.values).subspan(by), as.doubles()) <= kTolerance;
          }
          return std::equal(as.values.begin(), as.values.end(), moved.values.begin() + by);
        };
        EXPECT_TRUE(same(y, first.y)) << by;
        EXPECT_TRUE(same(dx, first.dx)) << by;
        EXPECT_TRUE(same(dweight, first.dweight)) << by;
        EXPECT_TRUE(same(dbias, first.dbias)) << by;
      }
    }
  }
}

TEST(Matmul, TheBiasGradientHasTheSameBitsOnAnyNumberOfThreads) {
  const Sizes s{700, 3, 130};
  Operands one(s);
  matmul(*stream_of(1), one.backward());
  for (const int threads : {2, 3, 5}) {
    Operands o(s);
    matmul(*stream_of(threads), o.backward());
    EXPECT_EQ(o.dbias.values, one.dbias.values) << threads;
  }
}

TEST(Matmul, AnErrorNamesTheOperand) {
  const Sizes s{6, 5, 7};
  const auto stream = stream_of(1);
  Operands o(s);
  Owned<float> wrong({6, 6}), vector({5});
  Owned<std::int32_t> integers({6, 5});
  const auto expect = [&](const auto& a, const std::string& words) {
    try {
      matmul(*stream, a);
      ADD_FAILURE() << "accepted a wrong " << words;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto with = [](auto a, Tensor decltype(a)::*operand, Tensor value) {
    a.*operand = value;
    return a;
  };
  expect(with(o.forward(), &MatmulForward::x, vector), "matmul: x");
  expect(with(o.forward(), &MatmulForward::x, integers), "matmul: x");
  expect(with(o.forward(), &MatmulForward::weight, wrong), "matmul: weight");
  expect(with(o.forward(), &MatmulForward::bias, vector), "matmul: bias");
  expect(with(o.forward(), &MatmulForward::y, {}), "matmul: y");
  expect(with(o.backward(), &MatmulBackward::dy, vector), "matmul: dy");
  expect(with(o.backward(), &MatmulBackward::x, vector), "matmul: x");
  expect(with(o.backward(), &MatmulBackward::weight, wrong), "matmul: weight");
  expect(with(o.backward(), &MatmulBackward::dx, wrong), "matmul: dx");
  expect(with(o.backward(), &MatmulBackward::dweight, wrong), "matmul: dweight");
  expect(with(o.backward(), &MatmulBackward::dbias, vector), "matmul: dbias");
}

}  // namespace
}  // namespace nanofsdp::ops::matmul_test
