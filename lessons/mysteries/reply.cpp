#include "mystery.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace lesson::mystery {

std::vector<Mystery> all() {
  std::vector<Mystery> mysteries = memory_mysteries();
  for (auto more : {training_mysteries(), order_mysteries(), count_mysteries()}) {
    mysteries.insert(mysteries.end(), more.begin(), more.end());
  }
  std::ptrdiff_t turn = 0;  // rotates the causes, so that the right one is not always the first
  for (Mystery& mystery : mysteries) {
    const auto size = std::ssize(mystery.causes), by = turn++ * 3 % size;
    std::ranges::rotate(mystery.causes, mystery.causes.begin() + by);
    mystery.cause = static_cast<int>((mystery.cause - 1 - by + size) % size) + 1;
  }
  return mysteries;
}

Reply reply(const Mystery& mystery, const std::string& answer) {
  std::istringstream words(answer);
  int cause = 0;
  std::string rank, unit;
  const int causes = static_cast<int>(mystery.causes.size());
  if (!(words >> cause >> rank >> unit) || cause < 1 || cause > causes) {
    return {false, fmt::format("An answer is a cause from 1 to {}, a rank and a unit, as in "
                               "ANSWER=\"1 0 h.2\". Rank and unit may be all.",
                               causes)};
  }
  const Cause& named = mystery.causes[static_cast<std::size_t>(cause - 1)];
  if (cause != mystery.cause) return {false, fmt::format("Not cause {}. {}", cause, named.hint)};
  if (rank != mystery.rank)
    return {false, fmt::format("The cause is right, but not rank {}. {}", rank, named.hint)};
  if (unit != mystery.unit)
    return {false, fmt::format("Cause and rank are right, but not unit {}. {}", unit, named.hint)};
  return {true, "Right. " + mystery.explanation};
}

}  // namespace lesson::mystery
