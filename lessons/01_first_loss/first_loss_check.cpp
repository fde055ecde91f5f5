#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "first_loss_exercise.h"
#include "frame/exercise.h"
#include "ops/cross_entropy.h"

namespace {

using namespace nanofsdp;

constexpr double kTolerance = 1e-5;  // what float32 keeps of a loss

double library_loss(std::span<float> logits, std::int32_t target) {
  Context context;
  float loss = 0, lse = 0;
  ops::cross_entropy(
      *context.compute,
      ops::CrossEntropyForward{
          .logits = Tensor(logits.data(), {1, static_cast<std::int64_t>(logits.size())}),
          .target = Tensor(&target, {1}, DType::int32),
          .loss = Tensor(&loss, {1}),
          .lse = Tensor(&lse, {1})});
  return loss;
}

// The slope as it is defined, with a small step. A long double keeps the digits of the difference,
// and the largest logit is subtracted first.
double slope_at(const std::vector<float>& logits, std::size_t target, std::size_t i) {
  const auto loss = [&](long double step) {
    const long double largest = *std::ranges::max_element(logits);
    long double sum = 0;
    for (std::size_t k = 0; k < logits.size(); ++k) {
      sum += std::exp(logits[k] + (k == i ? step : 0) - largest);
    }
    return std::log(sum) - (logits[target] + (i == target ? step : 0) - largest);
  };
  constexpr long double kStep = 1e-5L;
  return static_cast<double>((loss(kStep) - loss(-kStep)) / (2 * kStep));
}

}  // namespace

// Rows of 1 to 52 logits, of a spread from 1 to 1000, around -1000, 0 and 1000. Of each row the
// target moves; the slopes are compared one by one.
int main() {
  lesson::Exercise losses("loss_of"), slopes("slopes_of");
  Generator generator(lesson::seed(1));
  for (const float spread : {1.0f, 30.0f, 1000.0f}) {
    for (const float centre : {0.0f, 1000.0f, -1000.0f}) {
      for (std::size_t V = 1; V <= 52; ++V) {
        std::vector<float> logits(V);
        generator.uniform(logits, centre - spread, centre + spread);
        const std::size_t target = V * V / 2 % V;
        const std::string row =
            fmt::format("{} logits between {} and {}", V, centre - spread, centre + spread);
        const double spec = library_loss(logits, static_cast<std::int32_t>(target));
        losses.expect(lesson::Near{loss_of(logits, target), kTolerance},
                      lesson::Near{spec, kTolerance}, "{}", row);
        const std::vector<double> yours = slopes_of(logits, target);
        if (!slopes.expect(yours.size(), V, "{}: the number of slopes", row)) continue;
        for (std::size_t i = 0; i < V; ++i) {
          slopes.expect(lesson::Near{yours[i], kTolerance},
                        lesson::Near{slope_at(logits, target, i), kTolerance},
                        "{}, logit {} is {}, the target is {}", row, i, logits[i], target);
        }
      }
    }
  }
  return losses.end() + slopes.end() == 0 ? 0 : 1;
}
