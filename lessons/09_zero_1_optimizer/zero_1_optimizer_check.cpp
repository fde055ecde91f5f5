#include <exception>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/exercise.h"
#include "zero_1_optimizer_exercise.h"

namespace {

using namespace nanofsdp;
constexpr float kRates[] = {0.5f, 0.25f, 1};  // of each step
constexpr int kSteps = 3;

// Element i of a rank's gradient. These are whole numbers, so an average over one, two or four
// ranks does not round.
float gradient_of(int rank, int step, int i) { return static_cast<float>(4 * rank + i - step); }

std::string shown(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{:.4f}", text.empty() ? "" : " ", value);
  return text;
}

std::string shown(const std::vector<float>& parameters, const std::vector<float>& momentum) {
  return fmt::format("{}, momentum {}", shown(parameters), shown(momentum));
}

// What each rank has after some steps, or the error if a rank failed.
std::vector<std::string> run(int W, int s) {
  std::vector<std::string> results(W);
  try {
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      std::vector<float> parameters(W * s, 1), gradient(W * s), momentum(s);
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < W * s; ++i) gradient[i] = gradient_of(context.rank, step, i);
        sharded_momentum_step(*context.compute, *world, parameters, gradient, momentum,
                              kRates[step]);
      }
      results[context.rank] = shown(parameters, momentum);
    });
  } catch (const std::exception& e) {
    results[0] = e.what();
  }
  return results;
}

// What rank `of` is to have, computed on one process that stores all of the momentum.
std::string specified(int W, int s, int of) {
  std::vector<float> parameters(W * s, 1), momentum(W * s);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < W * s; ++i) {
      float sum = 0;
      for (int rank = 0; rank < W; ++rank) sum += gradient_of(rank, step, i);
      momentum[i] = 0.9f * momentum[i] + sum / static_cast<float>(W);
      parameters[i] -= kRates[step] * momentum[i];
    }
  }
  return shown(parameters, {momentum.begin() + of * s, momentum.begin() + (of + 1) * s});
}

}  // namespace

// Tries one, two and four ranks with shards of 0 to 3 elements, three steps each.
int main() {
  lesson::Exercise exercise("sharded_momentum_step");
  for (const int W : {1, 2, 4}) {
    for (int s = 0; s <= 3; ++s) {
      const std::vector<std::string> yours = run(W, s);
      for (int rank = 0; rank < W; ++rank) {
        if (!exercise.expect(yours[rank], specified(W, s, rank),
                             "{} ranks, shards of {}, parameters and momentum of rank {} after {} "
                             "steps with rates of 0.5, 0.25 and 1",
                             W, s, rank, kSteps)) {
          return exercise.end();
        }
      }
    }
  }
  return exercise.end();
}
