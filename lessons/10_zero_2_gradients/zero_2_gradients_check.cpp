#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/exercise.h"
#include "zero_2_gradients_exercise.h"

namespace {

using namespace nanofsdp;
constexpr int kUnits = 2;  // they borrow the same memory, one after the other

// Element i of a unit's gradient on a rank. Multiples of 4, so that an average over four ranks does
// not round.
float gradient_of(int unit, int rank, int m, int i) {
  return static_cast<float>(4 * (rank + 1) * (i + 1) + 4 * m - 40 * unit);
}

std::string shown(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : " ", value);
  return text;
}

// The shards of each rank after M micro-batches, unit after unit, or the error if a rank failed.
std::vector<std::string> run(int W, int s, int M) {
  std::vector<std::string> results(W);
  try {
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      std::vector<float> whole(W * s), shards(kUnits * s, std::numeric_limits<float>::quiet_NaN());
      for (int m = 0; m < M; ++m) {
        for (int unit = 0; unit < kUnits; ++unit) {
          for (int i = 0; i < W * s; ++i) whole[i] += gradient_of(unit, context.rank, m, i);
          reduce_gradient(*context.compute, *world, whole, std::span(shards).subspan(unit * s, s),
                          m == 0);
        }
      }
      results[context.rank] = shown(shards);
    });
  } catch (const std::exception& e) {
    results[0] = e.what();
  }
  return results;
}

std::string specified(int W, int s, int M, int rank) {
  std::vector<float> shards(kUnits * s);
  for (int at = 0; at < kUnits * s; ++at) {
    for (int m = 0; m < M; ++m) {
      for (int r = 0; r < W; ++r) {
        shards[at] += gradient_of(at / s, r, m, rank * s + at % s) / static_cast<float>(W);
      }
    }
  }
  return shown(shards);
}

}  // namespace

// Tries one, two and four ranks, shards of 0 to 3 elements, and one to three micro-batches.
int main() {
  lesson::Exercise exercise("reduce_gradient");
  for (const int W : {1, 2, 4}) {
    for (int s = 0; s <= 3; ++s) {
      for (int M = 1; M <= 3; ++M) {
        const std::vector<std::string> yours = run(W, s, M);
        for (int rank = 0; rank < W; ++rank) {
          if (!exercise.expect(yours[rank], specified(W, s, M, rank),
                               "{} ranks, {} micro-batches, the shards of two units on rank {}", W,
                               M, rank)) {
            return exercise.end();
          }
        }
      }
    }
  }
  return exercise.end();
}
