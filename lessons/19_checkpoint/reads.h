#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/svg.h"

/// @file
/// @brief Who reads what from whose file, for lesson 19; and a picture of it.

namespace lesson {

/// "transformer.wte.weight" is wte.
inline std::string short_name(const std::string& name) {
  const std::size_t begin = name.find('.') + 1;
  return name.substr(begin, name.find('.', begin) - begin);
}

/// What a file has of the root unit, in words.
template <class File>
std::string root_of(const File& file) {
  std::string text;
  for (const auto& piece : file) {
    if (piece.name.find(".h.") != std::string::npos) continue;
    text += fmt::format("{}{} {}-{}", text.empty() ? "" : ", ", short_name(piece.name),
                        piece.range.begin, piece.range.end);
  }
  return text;
}

/// @param file of pieces with values, m and v in float32
template <class File>
std::int64_t bytes_of(const File& file) {
  std::int64_t bytes = 0;
  for (const auto& piece : file) bytes += 3 * 4 * std::ssize(piece.values);
  return bytes;
}

struct Reads {
  int files_of_1 = 0;  ///< from which rank 1 of the second row reads
  Svg picture{690, 185};
};

/// What the ranks in `wanted` read of the root unit from the files of those in `saved`.
template <class Files>
Reads reads_of_root(const Files& saved, const Files& wanted) {
  Reads reads;
  const auto of_root = [](const auto& piece) {
    return piece.name.find(".h.") == std::string::npos;
  };
  const auto place = [](const auto& piece, std::int64_t element) {
    const std::string name = short_name(piece.name);
    const std::int64_t before = name == "wte" ? 0 : name == "wpe" ? 6656 : 6656 + 8192;
    return static_cast<int>(20 + (before + element) * 650 / 14976);
  };
  const auto row = [&](const Files& files, int y, int below, const std::string& title) {
    reads.picture.text(20, y + below, title);
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
      for (const auto& piece : files[rank]) {
        if (!of_root(piece)) continue;
        const int begin = place(piece, piece.range.begin), end = place(piece, piece.range.end);
        const int width = end - begin;
        const std::string who = (width < 90 ? "" : "rank ") + fmt::format("{}: ", rank);
        reads.picture.box(begin, y, width, 40, rank % 2 == 0 ? colour::blue : colour::orange,
                          width < 40 ? "" : who + short_name(piece.name));
      }
    }
  };
  row(saved, 30, -6, "the root unit, saved by 4 ranks");
  row(wanted, 110, 58, "loaded by 3: a copy for each line");
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const auto& file : saved) {
      int copies = 0;
      for (const auto& piece : file) {
        for (const auto& mine : wanted[rank]) {
          const std::int64_t begin = std::max(piece.range.begin, mine.range.begin);
          const std::int64_t end = std::min(piece.range.end, mine.range.end);
          if (piece.name != mine.name || begin >= end || !of_root(piece)) continue;
          ++copies;
          const int x = place(piece, (begin + end) / 2);
          reads.picture.line(x, 70, x, 110);
        }
      }
      if (rank == 1 && copies > 0) ++reads.files_of_1;
    }
  }
  return reads;
}

}  // namespace lesson
