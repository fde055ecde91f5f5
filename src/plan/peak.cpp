#include "plan/peak.h"

#include <algorithm>
#include <chrono>

namespace nanofsdp::plan {
double multiply_and_add(Stream& stream) {
  constexpr std::int64_t kRounds = 1 << 20;
  stream.parallel_for(stream.threads(), 1, [](std::int64_t, std::int64_t) {
    const Pack factor = Pack{} + 0.999f, addend = Pack{} + 0.001f;
    Packs packs{};
    touch(packs);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      for (Pack& pack : packs) pack = pack * factor + addend;
    }
    touch(packs);
  });
  return 2.0 * kRounds * kLanes * stream.threads();
}

double peak_flops(Stream& stream) {
  using Clock = std::chrono::steady_clock;
  if (stream.device() != Device::cpu) return 0;
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point begin = Clock::now();
    const double flops = multiply_and_add(stream);
    best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace nanofsdp::plan
