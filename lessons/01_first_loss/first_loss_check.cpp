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

}  // namespace

// Rows of 1 to 52 logits, of a spread from 1 to 1000, around -1000, 0 and 1000.
int main() {
  lesson::Exercise exercise("loss_of");
  Generator generator(lesson::seed(1));
  for (const float spread : {1.0f, 30.0f, 1000.0f}) {
    for (const float centre : {0.0f, 1000.0f, -1000.0f}) {
      for (std::size_t V = 1; V <= 52; ++V) {
        std::vector<float> logits(V);
        generator.uniform(logits, centre - spread, centre + spread);
        const double yours = loss_of(logits, V / 2);
        const double spec = library_loss(logits, static_cast<std::int32_t>(V / 2));
        exercise.expect(lesson::Near{yours, kTolerance}, lesson::Near{spec, kTolerance},
                        "{} logits between {} and {}", V, centre - spread, centre + spread);
      }
    }
  }
  return exercise.end();
}
