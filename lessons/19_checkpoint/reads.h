#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/separated.h"
#include "frame/svg.h"

/// @file
/// @brief Which rank reads which elements from which file, for lesson 19; and a picture of it.

namespace lesson {

/// "wte" of "transformer.wte.weight".
inline std::string short_name(const std::string& name) {
  const std::size_t begin = name.find('.') + 1;
  return name.substr(begin, name.find('.', begin) - begin);
}

/// The pieces of the root unit in a file, as text.
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
  int files_of_1 = 0;  ///< from which rank 1 of those that load reads
  Svg picture{400, 470};
};

/// The parts of the root unit that the ranks in `wanted` read from the files of those in `saved`.
/// The picture has the elements from top to bottom, so a copy is a level line from a file to a
/// rank.
template <class Files>
Reads reads_of_root(const Files& saved, const Files& wanted) {
  Reads reads;
  constexpr std::int64_t kWte = 6656, kWpe = 8192, kAll = kWte + kWpe + 128;
  const auto of_root = [](const auto& piece) {
    return piece.name.find(".h.") == std::string::npos;
  };
  const auto y = [](std::int64_t element) { return static_cast<int>(80 + element * 360 / kAll); };
  const auto place = [&](const auto& piece, std::int64_t element) {
    const std::string name = short_name(piece.name);
    return y((name == "wte" ? 0 : name == "wpe" ? kWte : kWte + kWpe) + element);
  };
  Svg& svg = reads.picture;
  svg.text(200, 20, "The root unit: 4 files, read by 3 ranks", Svg::At::middle);
  svg.text(200, 44, "downwards: elements 0 to 14,976", Svg::At::middle);
  const auto column = [&](const Files& files, int x, const char* label) {
    const std::int64_t shard = (kAll + std::ssize(files) - 1) / std::ssize(files);
    for (std::int64_t rank = 0; rank < std::ssize(files); ++rank) {
      const int top = y(rank * shard), height = y((rank + 1) * shard) - top;
      svg.box(x, top, 80, height, colour::parameters, fmt::format("{} {}", label, rank));
      const bool left = x < 200;
      svg.text(left ? x - 6 : x + 86, top + 12, separated(rank * shard),
               left ? Svg::At::end : Svg::At::start);
    }
  };
  column(saved, 60, "file");
  column(wanted, 260, "rank");
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const auto& file : saved) {
      int copies = 0;
      for (const auto& piece : file) {
        for (const auto& mine : wanted[rank]) {
          const std::int64_t begin = std::max(piece.range.begin, mine.range.begin);
          const std::int64_t end = std::min(piece.range.end, mine.range.end);
          if (piece.name != mine.name || begin >= end || !of_root(piece)) continue;
          ++copies;
          const int middle = place(piece, (begin + end) / 2);
          svg.line(140, middle, 260, middle);
          svg.text(200, middle - 4, short_name(piece.name), Svg::At::middle);
        }
      }
      if (rank == 1 && copies > 0) ++reads.files_of_1;
    }
  }
  svg.text(200, 462, "each line is one copy", Svg::At::middle);
  return reads;
}

}  // namespace lesson
