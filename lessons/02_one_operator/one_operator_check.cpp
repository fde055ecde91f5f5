#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "frame/exercise.h"
#include "one_operator_exercise.h"
#include "ops/layer_norm.h"

namespace {

using namespace nanofsdp;

constexpr double kTolerance = 1e-4;  // difference that the order of a float32 sum may make

std::vector<float> random(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  Generator(lesson::seed(2) + static_cast<std::uint64_t>(n)).normal(values, 1, 2);
  return values;
}

void check(lesson::Exercise& exercise, std::int64_t R, std::int64_t C) {
  Context context;
  std::vector<float> x = random(R * C), dy = random(R * C + 1), weight = random(C), y = x, dx = x;
  std::vector<float> mean(static_cast<std::size_t>(R)), rstd = mean;
  dy.pop_back();  // other numbers than x
  std::vector<float> yours(static_cast<std::size_t>(C), 5), spec = yours;
  const auto tensor = [](std::vector<float>& v, Shape shape) { return Tensor(v.data(), shape); };
  ops::layer_norm(*context.compute, ops::LayerNormForward{.x = tensor(x, {R, C}),
                                                          .weight = tensor(weight, {C}),
                                                          .y = tensor(y, {R, C}),
                                                          .mean = tensor(mean, {R}),
                                                          .rstd = tensor(rstd, {R})});
  ops::layer_norm(*context.compute, ops::LayerNormBackward{.dy = tensor(dy, {R, C}),
                                                           .x = tensor(x, {R, C}),
                                                           .weight = tensor(weight, {C}),
                                                           .mean = tensor(mean, {R}),
                                                           .rstd = tensor(rstd, {R}),
                                                           .dx = tensor(dx, {R, C}),
                                                           .dweight = tensor(spec, {C})});
  add_weight_gradient({.dy = dy, .x = x, .mean = mean, .rstd = rstd}, yours);
  for (std::size_t c = 0; c < spec.size(); ++c) {
    exercise.expect(lesson::Near{yours[c], kTolerance}, lesson::Near{spec[c], kTolerance},
                    "{} rows of {}, dweight 5 before, element {}", R, C, c);
  }
}

}  // namespace

// 1 to 9 rows of 2 to 17 elements, a gradient that is 5 already.
int main() {
  lesson::Exercise exercise("add_weight_gradient");
  for (std::int64_t R = 1; R <= 9; ++R) {
    for (std::int64_t C = 2; C <= 17; ++C) check(exercise, R, C);
  }
  return exercise.end();
}
