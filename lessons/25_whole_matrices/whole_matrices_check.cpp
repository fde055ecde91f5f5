#include "whole_matrices_exercise.h"

#include <algorithm>
#include <random>
#include <string>

#include "frame/exercise.h"

namespace {

using Numbers = std::vector<std::int64_t>;

// The largest load of an assignment; -1 if it is none, or if a rank has too little room.
std::int64_t largest_load(const std::vector<int>& ranks, const Numbers& work,
                          const Numbers& elements, int W, std::int64_t room) {
  if (ranks.size() != work.size()) return -1;
  Numbers load(W), held(W);
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= W) return -1;
    load[ranks[i]] += work[i], held[ranks[i]] += elements[i];
  }
  return *std::ranges::max_element(held) > room ? -1 : *std::ranges::max_element(load);
}

// The specification tries all W^n assignments. -1: there is none.
std::int64_t best_load(const Numbers& work, const Numbers& elements, int W, std::int64_t room) {
  std::int64_t all = 1, best = -1;
  for (std::size_t i = 0; i < work.size(); ++i) all *= W;
  std::vector<int> ranks(work.size());
  for (std::int64_t number = 0; number < all; ++number) {
    std::int64_t rest = number;
    for (int& rank : ranks) rank = static_cast<int>(rest % W), rest /= W;
    const std::int64_t load = largest_load(ranks, work, elements, W, room);
    if (load >= 0 && (best < 0 || load < best)) best = load;
  }
  return best;
}

std::string list(const Numbers& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ", ")); }

}  // namespace

int main() {
  lesson::Exercise exercise("the largest load of assign");
  const auto check = [&](const Numbers& work, const Numbers& elements, int W, std::int64_t room) {
    const std::vector<int> yours = assign(work, elements, W, room);
    const std::int64_t spec = best_load(work, elements, W, room);
    const std::int64_t load = spec < 0 && yours.empty() && !work.empty()
                                  ? -1
                                  : largest_load(yours, work, elements, W, room);
    const bool refused = spec < 0 && !yours.empty();  // it had to be empty
    exercise.expect(refused ? 0 : load, spec,
                    "work = {}, elements = {}, W = {}, room = {} (-1: no assignment has room)",
                    list(work), list(elements), W, room);
  };
  check({8, 6, 2, 8}, {4, 3, 1, 4}, 4, 100);  // a block of the lesson's GPT
  check({3, 3, 2, 2, 2}, {1, 1, 1, 1, 1}, 2, 100);
  check({3, 3, 2, 2, 2}, {9, 1, 9, 1, 1}, 2, 11);
  check({5}, {4}, 1, 4);
  check({5}, {4}, 3, 3);
  std::mt19937 random(lesson::seed(25));
  const auto draw = [&](int most) { return 1 + static_cast<std::int64_t>(random() % most); };
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<std::size_t>(draw(6));
    Numbers work(n), elements(n);
    for (std::int64_t& w : work) w = draw(9);
    for (std::int64_t& e : elements) e = draw(9);
    const int W = static_cast<int>(draw(4));
    const std::int64_t room = i % 2 == 0 ? 100 : 4 + draw(20);
    check(work, elements, W, room);
  }
  return exercise.end();
}
