#include <algorithm>

#include "whole_matrices_exercise.h"

namespace {

// Tries every rank for each matrix in turn, but no branch that is not better than the best so far.
struct Search {
  const std::vector<std::int64_t>&work, &elements;
  std::int64_t room;
  std::vector<std::int64_t> load, held;  // by rank
  std::vector<int> ranks{}, best{};
  std::int64_t best_load = INT64_MAX;

  void go(std::size_t i) {
    const std::int64_t most = *std::max_element(load.begin(), load.end());
    if (most >= best_load) return;
    if (i == work.size()) {
      best = ranks, best_load = most;
      return;
    }
    for (std::size_t r = 0; r < load.size(); ++r) {
      if (held[r] + elements[i] > room) continue;
      load[r] += work[i], held[r] += elements[i];
      ranks.push_back(static_cast<int>(r));
      go(i + 1);
      ranks.pop_back();
      load[r] -= work[i], held[r] -= elements[i];
    }
  }
};

}  // namespace

std::vector<int> assign(const std::vector<std::int64_t>& work,
                        const std::vector<std::int64_t>& elements, int W, std::int64_t room) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(W));
  Search search{work, elements, room, none, none};
  search.go(0);
  return search.best;
}
