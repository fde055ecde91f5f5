#include <algorithm>

#include "the_tape_exercise.h"

std::vector<int> completion_order(std::span<const int> uses) {
  std::vector<int> order;
  for (std::size_t i = uses.size(); i-- > 0;) {
    const auto before = uses.first(i);  // the uses that backward has not visited yet
    if (std::ranges::find(before, uses[i]) == before.end()) order.push_back(uses[i]);
  }
  return order;
}
