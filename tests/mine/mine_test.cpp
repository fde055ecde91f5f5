#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "data/dataset.h"
#include "machine.h"
#include "mine/wrong.h"

// The machine of the exercises trains like the library, and it names the piece that is wrong.

namespace lesson::mine {

// In the program of `make mine`, the reader's file is called in this way.
decltype(::piece) a_readers_piece __asm__("yours_piece");
fsdp::Piece a_readers_piece(fsdp::Range, fsdp::Range) { return {}; }

namespace {

const data::Dataset& tales() {
  static const data::Dataset text = data::load_dataset({}, kContext);
  return text;
}

const Outcome& library(int W) {
  static const Outcome on_two = by_library({.W = 2}, tales()),
                       on_three = by_library({.W = 3}, tales());
  return W == 2 ? on_two : on_three;
}

TEST(Mine, OfSolutionsIsTheLibraryToTheBit) {
  for (const int W : {2, 3}) {
    const Outcome machine = by_hand(solutions(), {.W = W}, tales());
    ASSERT_EQ(machine.numbers.size(), library(W).numbers.size());
    ASSERT_EQ(machine.weights.size(), library(W).weights.size());
    for (std::size_t i = 0; i < machine.numbers.size(); ++i) {
      EXPECT_EQ(machine.numbers[i].what, library(W).numbers[i].what);
      EXPECT_EQ(machine.numbers[i].step, library(W).numbers[i].step);
    }
    EXPECT_EQ(first_difference(machine, library(W)), "") << W << " ranks";
  }
}

TEST(Mine, TakesTheReadersFunctionsThatAreThere) {
  Pieces pieces = solutions();
  EXPECT_EQ(use_yours(pieces, {"07", "08"}), std::vector<std::string_view>{"07"});
  EXPECT_EQ(pieces.piece, &a_readers_piece);
  EXPECT_EQ(pieces.views, solutions().views);
}

TEST(Mine, HasAPageThatNamesEachPiece) {
  std::ifstream file(NANOFSDP_SOURCE_DIR "/lessons/mine/README.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const PieceInfo& piece : piece_infos()) {
    const std::string row = fmt::format("| {} | `{}` |", piece.number, piece.function);
    EXPECT_NE(page.find(row), page.npos) << row;
  }
}

TEST(Mine, Learns) {
  std::vector<double> losses;
  for (const Number& number : library(2).numbers) {
    if (number.what == "loss") losses.push_back(number.value);
  }
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_LT(losses.back(), losses.front() - 0.5);
}

TEST(Mine, HasAMistakeForEachPiece) {
  std::set<std::string_view> pieces, wrong;
  for (const PieceInfo& piece : piece_infos()) pieces.insert(piece.number);
  for (const Mistake& mistake : mistakes()) wrong.insert(mistake.number);
  EXPECT_EQ(pieces, wrong);
}

class AMistake : public ::testing::TestWithParam<Mistake> {};

// One piece is wrong and all others are right, so the first number that differs shows its effect.
TEST_P(AMistake, ShowsInTheNumberThatItChanges) {
  for (const int W : {2, 3}) {
    Pieces pieces = solutions();
    GetParam().make(pieces);
    std::string said;
    try {
      said = first_difference(by_hand(pieces, {.W = W}, tales()), library(W));
    } catch (const std::exception& e) {
      said = e.what();
    }
    EXPECT_TRUE(said.starts_with(GetParam().shows)) << W << " ranks: " << said;
    EXPECT_NE(said.find("yours"), said.npos) << said;
    EXPECT_NE(said.find("the library's"), said.npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Mine, AMistake, ::testing::ValuesIn(mistakes()),
                         [](const auto& info) { return std::string(info.param.number); });

}  // namespace
}  // namespace lesson::mine
