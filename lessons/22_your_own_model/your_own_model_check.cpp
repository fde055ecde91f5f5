#include <nanofsdp/base/rng.h>

#include <cstdint>
#include <vector>

#include "frame/exercise.h"
#include "your_own_model_exercise.h"

namespace {

using Values = std::vector<float>;

Values random(std::int64_t n, nanofsdp::Generator& generator) {
  Values values(static_cast<std::size_t>(n));
  generator.normal(values, 0, 1);
  return values;
}

// y = M x; M has as many columns as x has elements.
std::vector<double> product(const Values& M, const auto& x) {
  std::vector<double> y(M.size() / x.size());
  for (std::size_t i = 0; i < M.size(); ++i) y[i / x.size()] += double{M[i]} * x[i % x.size()];
  return y;
}

}  // namespace

// The specification does not merge: it adds base x and scale * lora_B (lora_A x).
int main() {
  lesson::Exercise exercise("merge");
  nanofsdp::Generator generator(lesson::seed(22));
  for (std::int64_t in = 1; in <= 6; ++in) {
    for (std::int64_t out = 1; out <= 6; ++out) {
      for (std::int64_t rank = 1; rank <= 3; ++rank) {
        const Values A = random(rank * in, generator), B = random(out * rank, generator);
        const Values W = random(out * in, generator), x = random(in, generator);
        Values merged = W;
        const float scale = 8.0f / static_cast<float>(rank);
        merge(merged, A, B, in, scale);
        const auto yours = product(merged, x), base = product(W, x);
        const auto added = product(B, product(A, x));
        for (std::size_t o = 0; o < yours.size(); ++o) {
          exercise.expect(lesson::Near{yours[o], 1e-5},
                          lesson::Near{base[o] + scale * added[o], 1e-5},
                          "in = {}, out = {}, width = {}: y[{}]", in, out, rank, o);
        }
      }
    }
  }
  return exercise.end();
}
