#include "mystery.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

// This program is called as: mystery N [ANSWER]
int main(int argc, char** argv) {
  using namespace lesson::mystery;
  const auto mysteries = all();
  const int number = argc > 1 ? std::atoi(argv[1]) : 0;
  const int last = static_cast<int>(mysteries.size());
  if (number < 1 || number > last) {
    fmt::print(stderr, "make mystery: N is to be 1 to {}, as in N=1\n", last);
    return 2;
  }
  const Mystery& mystery = mysteries[static_cast<std::size_t>(number - 1)];
  if (argc > 2 && argv[2][0] != '\0') {
    const Reply said = reply(mystery, argv[2]);
    fmt::print("{}\n", said.text);
    return said.right ? 0 : 1;
  }
  fmt::print("Mystery {}. {}\n\n{}\nWhat is the cause?\n", number, mystery.story,
             mystery.symptoms());
  for (std::size_t i = 0; i < mystery.causes.size(); ++i) {
    fmt::print("  {}  {}\n", i + 1, mystery.causes[i].text);
  }
  fmt::print(
      "On which rank (a number, or all), in which unit (root, h.0, ..., or all)?\n"
      "  make mystery N={} ANSWER=\"CAUSE RANK UNIT\"\n",
      number);
  return 0;
}
