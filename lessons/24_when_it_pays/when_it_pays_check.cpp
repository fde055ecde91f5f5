#include <cstdint>

#include "frame/exercise.h"
#include "when_it_pays_exercise.h"

namespace {

struct Case {
  double n, flop_per_s, bytes_per_s, step;
  int element, W;
};

// Whether t tokens hide the collectives, if these take `longer` times as long.
bool hides(const Case& c, std::int64_t t, double longer) {
  double collective = 0;  // step by step round the ring
  for (int i = 1; i < c.W; ++i) collective += c.step + c.element * c.n / c.W / c.bytes_per_s;
  const double forward = 2 * c.n * static_cast<double>(t) / c.flop_per_s;
  return forward >= longer * collective && 2 * forward >= longer * (collective + collective);
}

// The specification tries every t.
std::int64_t by_search(const Case& c, double longer = 1) {
  std::int64_t t = 0;
  while (!hides(c, t, longer)) ++t;
  return t;
}

}  // namespace

int main() {
  lesson::Exercise exercise("tokens_to_hide");
  const auto check = [&](const Case& c, bool is_exact = false) {
    // Rounding decides about a whole result, if a step on the way to it is not exact.
    if (!is_exact && by_search(c, 1 - 1e-9) != by_search(c, 1 + 1e-9)) return;
    exercise.expect(tokens_to_hide(c.n, c.flop_per_s, c.bytes_per_s, c.step, c.element, c.W),
                    by_search(c),
                    "n = {}, flop_per_s = {}, bytes_per_s = {}, step = {}, element = {}, W = {}",
                    c.n, c.flop_per_s, c.bytes_per_s, c.step, c.element, c.W);
  };
  for (const int W : {1, 2, 3, 8, 100}) {
    for (const double n : {1.0, 7.0, 1000.0}) {
      for (const double step : {0.0, 0.25, 3.0}) {
        for (const int element : {2, 4}) check({n, 113, 5, step, element, W});
      }
    }
  }
  for (const int W : {2, 4, 64}) {  // with powers of two every step is exact, and so is the result
    for (const double step : {0.0, 0.25}) check({1024, 1 << 20, 1024, step, 2, W}, true);
  }
  check({218'112'000, 366e12, 337.5e9, 23.8e-6 / 7, 2, 8});  // the lesson's
  check({218'112'000, 366e12, 300e9, 257.6e-6 / 63, 2, 64});
  check({218'112'000, 366e12, 300e9, 4265.6e-6 / 1023, 2, 1024});
  return exercise.end();
}
