#include <algorithm>

#include "collectives_exercise.h"

void ring_all_reduce(int rank, int W, std::span<float> x, Neighbours& ring) {
  const std::size_t length = x.size() / W;
  const auto chunk = [&](int c) { return x.subspan((c + 2 * W) % W * length, length); };
  for (int step = 0; step < W - 1; ++step) {  // reduce-scatter: chunk `rank` comes here last
    ring.send(chunk(rank - 1 - step));
    const std::span<const float> came = ring.receive();  // chunk rank - 2 - step
    const std::span<float> mine = chunk(rank - 2 - step);
    for (std::size_t i = 0; i < length; ++i) mine[i] += came[i];
  }
  for (int step = 0; step < W - 1; ++step) {  // all-gather
    ring.send(chunk(rank - step));
    std::ranges::copy(ring.receive(), chunk(rank - 1 - step).begin());
  }
}
