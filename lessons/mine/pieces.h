#pragma once

#include <string_view>
#include <vector>

#include "pieces_headers.inc"

/// @file
/// @brief The pieces of the machine: functions that the reader writes, each in its lesson. The list
/// is pieces.txt; CMake makes the .inc files of it.

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

/// The solutions: the library's pieces.
Pieces solutions();

/// Puts the functions of these lessons, by number, in place of the ones in `pieces`.
/// @return the numbers of those for which there is no function of the reader's in this program
std::vector<std::string_view> use_yours(Pieces& pieces,
                                        const std::vector<std::string_view>& numbers);

}  // namespace lesson::mine
