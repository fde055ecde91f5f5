#include "ops/adamw.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::adamw_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;

// Parameters with the state of their optimizer, from step 1 on.
struct Optimized {
  explicit Optimized(std::int64_t n)
      : param(random_tensor({n}, 1)), grad(random_tensor({n}, 2)), m({n}), v({n}) {}

  AdamW step(std::int64_t step, double lr = 1e-3, double weight_decay = 0.1) {
    return {.param = param,
            .grad = grad,
            .m = m,
            .v = v,
            .lr = lr,
            .beta2 = 0.99,
            .weight_decay = weight_decay,
            .step = step};
  }

  Owned<float> param, grad, m, v;
};

// The formulas of the header, computed in double.
struct Oracle {
  double param, m = 0, v = 0;

  void step(double grad, std::int64_t step, double lr, double weight_decay) {
    param -= lr * weight_decay * param;
    m = 0.9 * m + 0.1 * grad;
    v = 0.99 * v + 0.01 * grad * grad;
    const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(0.99, step)) + 1e-8;
    param -= lr / (1 - std::pow(0.9, step)) * m / denominator;
  }
};

// Some gradients are near eps, so that the place of eps matters. Some parameters begin at zero, so
// that the update is not lost in rounding. A large rate shows whether decay comes first.
TEST(AdamW, ThreeStepsEqualTheOracle) {
  const testing::Values<float> sizes{0,     1e-10f, 3e-10f, 1e-9f, 1e-8f, 2e-8f,
                                     1e-7f, 1e-4f,  0.1f,   1,     10};
  const auto stream = stream_of(1);
  for (const double lr : {1e-3, 0.1}) {
    for (const double weight_decay : {0.0, 0.1}) {
      for (const float start : {0.0f, 0.5f, -1.25f}) {
        const auto n = static_cast<std::int64_t>(2 * sizes.size());
        Optimized o(n);
        std::vector<Oracle> oracles(2 * sizes.size(), Oracle{start});
        o.param = Owned<float>({n}, start);
        for (std::int64_t step = 1; step <= 3; ++step) {
          for (std::size_t i = 0; i < oracles.size(); ++i) {
            const float size = sizes[i / 2] * static_cast<float>(step);
            o.grad.values[i] = i % 2 == 0 ? size : -size;
            oracles[i].step(o.grad.values[i], step, lr, weight_decay);
          }
          adamw(*stream, o.step(step, lr, weight_decay));
          for (std::size_t i = 0; i < oracles.size(); ++i) {
            SCOPED_TRACE("g=" + std::to_string(o.grad.values[i]) + " lr=" + std::to_string(lr) +
                         " step=" + std::to_string(step));
            const Oracle& want = oracles[i];
            EXPECT_NEAR(o.m.values[i], want.m, 5e-7 * std::abs(want.m));
            EXPECT_NEAR(o.v.values[i], want.v, 1e-6 * want.v);
            // Next to a parameter of size `start`, the update keeps only the digits that are left.
            EXPECT_NEAR(o.param.values[i], want.param,
                        1e-6 * std::abs(want.param - start) + 3e-7 * std::abs(start));
          }
        }
      }
    }
  }
}

// These are three steps of torch.optim.AdamW(lr=1e-3, betas=(0.9, 0.99), eps=1e-8) in PyTorch
// 1.13.0.
TEST(AdamW, EqualsPyTorch) {
  const testing::Values<float> start{0.5f, -1, 1.5f, 0.25f, -0.75f, 2};
  const std::vector<testing::Values<float>> grads{{0, 1e-10f, -1e-8f, 1e-4f, -0.3f, 10},
                                                  {1e-8f, -1e-10f, 2e-8f, -1e-4f, 0.5f, -3},
                                                  {-1e-9f, 1e-8f, 0, 3e-4f, 0.1f, 7}};
  struct Steps {
    double weight_decay;
    std::vector<testing::Values<float>> params;  // values after each step
  };
  const Steps table[] = {
      {0.0,
       {{0.5f, -1.00000989f, 1.50049996f, 0.249000102f, -0.749000013f, 1.99899995f},
        {0.499692023f, -1.00000942f, 1.50027585f, 0.249052733f, -0.749293268f, 1.99857128f},
        {0.499505222f, -1.00024271f, 1.50011635f, 0.248494029f, -0.749625325f, 1.99793971f}}},
      {0.1,
       {{0.499949992f, -0.999909878f, 1.50035f, 0.248975098f, -0.74892503f, 1.99879992f},
        {0.499592006f, -0.999809325f, 1.4999758f, 0.249002829f, -0.749143362f, 1.99817133f},
        {0.499355227f, -0.999942601f, 1.49966633f, 0.248419225f, -0.749400496f, 1.99733996f}}}};
  const testing::Values<float> m{7.99999955e-10f, 9.99100025e-10f, 9.90000082e-10f,
                                 2.91000015e-05f, 0.0307f,         1.24000001f};
  const testing::Values<float> v{9.99999942e-19f, 1.00019691e-18f, 4.94009963e-18f,
                                 1.09701004e-09f, 0.00345709012f,  1.55919993f};
  for (const Steps& steps : table) {
    Optimized o(6);
    o.param.values.assign(start.begin(), start.end());
    for (std::int64_t step = 1; step <= 3; ++step) {
      o.grad.values.assign(grads[step - 1].begin(), grads[step - 1].end());
      adamw(*stream_of(1), o.step(step, 1e-3, steps.weight_decay));
      for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(o.param.values[i], steps.params[step - 1][i], 1.5e-7 * std::abs(start[i]))
            << "step " << step << " element " << i;
      }
    }
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(o.m.values[i], m[i], 5e-7 * std::abs(m[i]));
      EXPECT_NEAR(o.v.values[i], v[i], 5e-7 * std::abs(v[i]));
    }
  }
}

TEST(AdamW, TheFirstStepIsTheLearningRateWithTheGradientsSign) {
  for (const double beta2 : {0.9, 0.99, 0.999}) {
    Optimized o(1003);
    o.param = Owned<float>({1003});
    AdamW a = o.step(1, 0.25, 0);
    a.beta2 = beta2;
    adamw(*stream_of(1), a);
    for (std::size_t i = 0; i < 1003; ++i) {
      const float g = o.grad.values[i];
      ASSERT_GT(std::abs(g), 1e-5f);
      EXPECT_NEAR(o.param.values[i], g > 0 ? -0.25 : 0.25, 0.25 * (1e-8 / std::abs(g) + 5e-7));
    }
  }
}

// 1 - 0.9f is no nearest float of 0.1: PyTorch subtracts before it rounds.
TEST(AdamW, RoundsWhatItComputedInDouble) {
  for (const double beta : {0.5, 0.7, 0.9, 0.95, 0.99, 0.999, 0.9999}) {
    const AdamWConstants k({.lr = 1e-3, .beta1 = beta, .beta2 = 1 - 0.1 * beta});
    EXPECT_EQ(k.beta1, static_cast<float>(beta));
    EXPECT_EQ(k.rest1, static_cast<float>(1 - beta));
    EXPECT_EQ(k.beta2, static_cast<float>(1 - 0.1 * beta));
    EXPECT_EQ(k.rest2, static_cast<float>(1 - (1 - 0.1 * beta)));
  }
  for (const double lr : {1e-4, 2e-4, 3e-4, 6e-4, 1e-3, 2.5e-3}) {
    for (std::int64_t step = 1; step < 50; ++step) {
      const AdamWConstants k({.lr = lr, .weight_decay = 0.3, .step = step});
      const double one = 1 - std::pow(0.9, step), two = 1 - std::pow(0.999, step);
      EXPECT_EQ(k.step_size, static_cast<float>(lr / one));
      EXPECT_EQ(k.root_correction2, static_cast<float>(std::sqrt(two)));
      EXPECT_EQ(k.decay, static_cast<float>(1 - lr * 0.3));
    }
  }
}

TEST(AdamW, TheCoefficientOfClippingScalesTheGradient) {
  Optimized scaled(1003), clipped(1003);
  for (float& g : scaled.grad.values) g *= 0.37f;
  Owned<float> coefficient({1}, 0.37f);
  AdamW a = clipped.step(1);
  a.grad_scale = coefficient;
  const auto grad = clipped.grad.values;
  adamw(*stream_of(1), scaled.step(1));
  adamw(*stream_of(1), a);
  EXPECT_EQ(clipped.param.values, scaled.param.values);
  EXPECT_EQ(clipped.m.values, scaled.m.values);
  EXPECT_EQ(clipped.v.values, scaled.v.values);
  EXPECT_EQ(clipped.grad.values, grad) << "the gradient itself stays as it was";
}

// This law allows a shard to end anywhere. Parameters are zero, so that the whole update is
// visible.
TEST(AdamW, NoCutBetweenShardsChangesABit) {
  constexpr std::int64_t n = 1003;
  const auto stream = stream_of(1);
  for (const float scale : {0.0f, 1.0f}) {
    const auto fresh = [scale] {
      Optimized o(n);
      o.param = random_tensor({n}, 1, scale);
      return o;
    };
    Optimized whole = fresh();
    for (int step = 1; step <= 2; ++step) adamw(*stream, whole.step(step));
    const std::int64_t stride =
        testing::kDevice == Device::cpu ? 1 : 37;  // launching a kernel takes time
    for (std::int64_t cut = 1; cut < n; cut += stride) {
      Optimized parts = fresh();
      for (int step = 1; step <= 2; ++step) {
        for (const auto& [begin, size] : {std::pair{std::int64_t{0}, cut}, {cut, n - cut}}) {
          AdamW a = parts.step(step);
          for (Tensor* t : {&a.param, &a.grad, &a.m, &a.v}) *t = t->slice(begin, size);
          adamw(*stream, a);
        }
      }
      ASSERT_EQ(parts.param.values, whole.param.values) << "cut at " << cut;
      ASSERT_EQ(parts.m.values, whole.m.values) << "cut at " << cut;
      ASSERT_EQ(parts.v.values, whole.v.values) << "cut at " << cut;
    }
  }
}

TEST(AdamW, AnyNumberOfThreadsGivesTheSameBits) {
  Optimized one(100003);
  adamw(*stream_of(1), one.step(1));
  for (const int threads : {2, 3}) {
    Optimized many(100003);
    adamw(*stream_of(threads), many.step(1));
    EXPECT_EQ(many.param.values, one.param.values);
    EXPECT_EQ(many.m.values, one.m.values);
    EXPECT_EQ(many.v.values, one.v.values);
  }
}

TEST(AdamW, NanInOneElementStaysThere) {
  Optimized o(40);
  o.grad.values[7] = std::numeric_limits<float>::quiet_NaN();
  adamw(*stream_of(1), o.step(1));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(o.param.values[i]), i == 7) << i;
}

TEST(AdamW, AnEmptyShardIsNoWork) {
  Optimized o(0);
  EXPECT_NO_THROW(adamw(*stream_of(2), o.step(1)));
}

TEST(AdamW, AnErrorNamesTheOperand) {
  Optimized o(6);
  Owned<float> wrong({5});
  Owned<double> doubles({6});
  for (const auto& [operand, words] :
       {std::pair{&AdamW::grad, "adamw: grad: expected float32 of 6 elements"},
        {&AdamW::m, "adamw: m"},
        {&AdamW::v, "adamw: v"},
        {&AdamW::grad_scale, "adamw: grad_scale"}}) {
    AdamW a = o.step(1);
    a.*operand = wrong;
    expect_error<ShapeError>([&] { adamw(*stream_of(1), a); }, words);
    a.*operand = doubles;
    expect_error<ShapeError>([&] { adamw(*stream_of(1), a); }, words);
  }
  const auto refused = [&](std::int64_t step, double beta1, double beta2) {
    AdamW a = o.step(step);
    a.beta1 = beta1, a.beta2 = beta2;
    expect_error<Error>([&] { adamw(*stream_of(1), a); },
                        fmt::format("adamw: step and betas: expected at least 1, and in [0, 1), "
                                    "got {}, {} and {}",
                                    step, beta1, beta2));
  };
  refused(0, 0.9, 0.99);
  refused(1, 1, 0.99);
  refused(1, 0.9, 1);
  refused(1, -0.1, 0.99);
  refused(1, 0.9, -0.1);
  for (double AdamW::*number : {&AdamW::lr, &AdamW::eps, &AdamW::weight_decay}) {
    for (const double value : {-1.0, std::nan("")}) {
      AdamW a = o.step(1);
      a.*number = value;
      expect_error<Error>([&] { adamw(*stream_of(1), a); },
                          "lr, eps and decay: expected 0 or more");
    }
  }
}

}  // namespace
}  // namespace nanofsdp::ops::adamw_test
