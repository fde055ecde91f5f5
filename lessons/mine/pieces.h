#pragma once

#include <string_view>
#include <vector>

#include "pieces_headers.inc"

/// @file
/// @brief The pieces of the machine: functions that the reader writes, each in its lesson.
/// pieces.txt lists them, and CMake makes the .inc files from it.

namespace lesson::mine {

/// One function for each line of pieces.txt, under its name.
struct Pieces {
#define NANOFSDP_PIECE(number, function, place) decltype(&::function) function;
#include "pieces.inc"
#undef NANOFSDP_PIECE
};

/// A line of pieces.txt.
struct PieceInfo {
  std::string_view number, function, place;
};
const std::vector<PieceInfo>& piece_infos();

/// The solutions, which are the library's pieces.
Pieces solutions();

/// Replaces the functions of these lessons, by their numbers, by the reader's.
/// @return the numbers of lessons for which this program has no function of the reader's
std::vector<std::string_view> use_yours(Pieces& pieces,
                                        const std::vector<std::string_view>& numbers);

}  // namespace lesson::mine
