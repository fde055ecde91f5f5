#include <exception>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/exercise.h"
#include "zero_1_optimizer_exercise.h"

namespace {

using namespace nanofsdp;
constexpr int kSteps = 3;

// Element i of a rank's gradient. These are whole numbers, so an average over one, two or four
// ranks does not round.
float gradient_of(int rank, int step, int i) { return static_cast<float>(4 * rank + i - step); }

std::string shown(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{:.4f}", text.empty() ? "" : " ", value);
  return text;
}

// The parameters of each rank after some steps, or the error if a rank failed.
std::vector<std::string> run(int W, int s) {
  std::vector<std::string> results(W);
  try {
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      std::vector<float> parameters(W * s, 1), gradient(W * s), momentum(s);
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < W * s; ++i) gradient[i] = gradient_of(context.rank, step, i);
        sharded_momentum_step(*context.compute, *world, parameters, gradient, momentum, 0.5f);
      }
      results[context.rank] = shown(parameters);
    });
  } catch (const std::exception& e) {
    results[0] = e.what();
  }
  return results;
}

// The same on one process, which stores all of the momentum.
std::string specified(int W, int s) {
  std::vector<float> parameters(W * s, 1), momentum(W * s);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < W * s; ++i) {
      float sum = 0;
      for (int rank = 0; rank < W; ++rank) sum += gradient_of(rank, step, i);
      momentum[i] = 0.9f * momentum[i] + sum / static_cast<float>(W);
      parameters[i] -= 0.5f * momentum[i];
    }
  }
  return shown(parameters);
}

}  // namespace

// Tries one, two and four ranks with shards of 0 to 3 elements, three steps each.
int main() {
  lesson::Exercise exercise("sharded_momentum_step");
  for (const int W : {1, 2, 4}) {
    for (int s = 0; s <= 3; ++s) {
      const std::vector<std::string> yours = run(W, s);
      for (int rank = 0; rank < W; ++rank) {
        if (!exercise.expect(yours[rank], specified(W, s),
                             "{} ranks, shards of {}, parameters of rank {} after {} steps", W, s,
                             rank, kSteps)) {
          return exercise.end();
        }
      }
    }
  }
  return exercise.end();
}
