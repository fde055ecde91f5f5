#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "machine.h"

// The program your_fsdp [--ranks=N] [--alone] NN... trains with the reader's functions of lessons
// NN, and compares. With --alone it only prints the first difference, so that lessons.sh can name
// the lesson that caused it.

namespace {

using namespace lesson::mine;
using Numbers = std::vector<std::string_view>;

bool holds(const Numbers& numbers, std::string_view number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

// The first difference between the machine with these pieces and the library; empty if there is
// none.
std::string compare(const Numbers& yours, const Setup& setup, const nanofsdp::data::Dataset& text,
                    const Outcome& library, Outcome* outcome = nullptr) {
  Pieces pieces = solutions();
  use_yours(pieces, yours);
  try {
    const Outcome trained = by_hand(pieces, setup, text);
    if (outcome != nullptr) *outcome = trained;
    return first_difference(trained, library);
  } catch (const std::exception& e) {
    return fmt::format("the machine stops: {}", e.what());
  }
}

void print_parts(const Numbers& yours, int W) {
  const auto& all = piece_infos();
  const auto mine = std::ranges::count_if(
      all, [&](const PieceInfo& piece) { return holds(yours, piece.number); });
  fmt::print("A sharded training on {} ranks, made of {} pieces; {} {} yours.\n", W, all.size(),
             mine, mine == 1 ? "is" : "are");
  for (const PieceInfo& piece : all) {
    fmt::print("  {} {:<14} {:<22} {}\n", piece.number,
               holds(yours, piece.number) ? "yours" : "the library's", piece.function, piece.place);
  }
}

void print_run(const Outcome& run) {
  fmt::print("step      loss   gradient norm   bytes sent\n");
  std::string loss, norm;
  for (const Number& number : run.numbers) {
    if (number.step == 0) {
      fmt::print("{}: {:.9g}\n", number.what, number.value);
    } else if (number.what == "loss") {
      loss = fmt::format("{:.4f}", number.value), norm.clear();
    } else if (number.what == "gradient norm") {
      norm = fmt::format("{:.4f}", number.value);
    } else {
      fmt::print("{:>4}{:>10}{:>16}{:>13.0f}\n", number.step, loss, norm, number.value);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  Numbers yours;
  bool alone = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--ranks=")) {
      const std::string_view number = argument.substr(8);
      std::from_chars(number.data(), number.data() + number.size(), setup.W);
    } else if (argument == "--alone") {
      alone = true;
    } else {
      yours.push_back(argument);
    }
  }
  if (setup.W < 2 || setup.W > kRows) {
    fmt::print(stderr, "make mine: RANKS is to be 2 to {}\n", kRows);
    return 2;
  }
  const auto text = nanofsdp::data::load_dataset({}, kContext);
  const Outcome library = by_library(setup, text);
  if (alone) {
    const std::string difference = compare(yours, setup, text, library);
    fmt::print("{}\n", difference);
    return difference.empty() ? 0 : 1;
  }

  print_parts(yours, setup.W);
  Outcome trained;
  const std::string difference = compare(yours, setup, text, library, &trained);
  print_run(trained);
  if (difference.empty()) {
    fmt::print("Equal to the library's run to the bit: {} numbers and {} weights.\n",
               library.numbers.size(), library.weights.size());
    return 0;
  }
  fmt::print("Not the library's run: {}\n", difference);
  for (const std::string_view number : yours) {
    const std::string by_itself = compare({number}, setup, text, library);
    if (!by_itself.empty()) fmt::print("  lesson {}: {}\n", number, by_itself);
  }
  return 1;
}
