#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frame/svg.h"
#include "fsdp/layout.h"

/// @file
/// @brief The pieces of lesson 23, and its picture.

namespace lesson {

using Parameters = std::vector<nanofsdp::fsdp::ParameterSpec>;

/// The elements of one parameter that one rank owns.
struct Piece {
  std::size_t parameter;   ///< its number in the unit
  std::int64_t rank;       ///< the owner
  std::int64_t in_buffer;  ///< its beginning in the buffer of a collective: all shards end to end
  std::int64_t in_whole;   ///< its beginning among the unsharded parameters, end to end
  std::int64_t numel;      ///< may be 0
};

/// The toy's matrices and the buffer, drawn from pieces. A shade of blue is a rank; a dot is
/// padding.
class Picture {
 public:
  Picture(const Parameters& toy, std::int64_t ranks) : toy_(toy), ranks_(ranks) {
    svg_.text(kLeft, 22, "Which of 3 ranks owns which element");
    for (std::size_t rank = 0; rank < kShades.size(); ++rank) {
      svg_.box(kLeft + 80 * static_cast<int>(rank), 34, 70, 22, kShades[rank],
               fmt::format("rank {}", rank));
    }
    svg_.text(kLeft + 250, 50, "a dot is padding");
  }

  /// @param pieces in shards of s elements  @param y of the first line
  void draw(std::string_view name, const std::vector<Piece>& pieces, std::int64_t s, int y) {
    std::vector<int> owners(numel()), parameters(s * ranks_, -1);
    for (const Piece& p : pieces) {
      std::fill_n(owners.begin() + p.in_whole, p.numel, p.rank);
      std::fill_n(parameters.begin() + p.in_buffer, p.numel, p.parameter);
    }
    svg_.text(kLeft, y, fmt::format("Layout {}: the matrices", name));
    draw_matrices(owners, y + 20);
    svg_.text(kLeft, y + 204,
              fmt::format("the buffer: {} elements, {} of them padding", parameters.size(),
                          std::ranges::count(parameters, -1)));
    draw_buffer(parameters, s, y + 214);
  }

  const Svg& svg() const { return svg_; }

 private:
  static constexpr int kLeft = 16;
  static constexpr std::array<std::string_view, 3> kShades = {colour::parameters, "#a3d6f4",
                                                              "#dceffb"};

  std::int64_t numel() const {
    std::int64_t sum = 0;
    for (const auto& p : toy_) sum += p.numel();
    return sum;
  }

  void draw_matrices(const std::vector<int>& owners, int y) {
    std::size_t e = 0;
    int x = kLeft;
    for (const auto& p : toy_) {
      const int columns = static_cast<int>(p.shape[1]);
      svg_.text(x, y, fmt::format("{}({},{})", p.name, p.shape[0], columns));
      for (int i = 0; i < p.numel(); ++i, ++e) {
        svg_.box(x + 22 * (i % columns), y + 8 + 22 * (i / columns), 22, 22, kShades[owners[e]],
                 std::to_string(owners[e]));
      }
      x += 22 * columns + 30;
    }
  }

  void draw_buffer(const std::vector<int>& parameters, std::int64_t s, int y) {
    for (std::size_t e = 0; e < parameters.size(); ++e) {
      const std::size_t rank = e / static_cast<std::size_t>(s), i = e % static_cast<std::size_t>(s);
      const int x = kLeft + 50 + 22 * static_cast<int>(i), at = y + 26 * static_cast<int>(rank);
      if (i == 0) svg_.text(kLeft, at + 16, fmt::format("rank {}", rank));
      const int parameter = parameters[e];
      svg_.box(x, at, 22, 22, parameter < 0 ? "#ffffff" : kShades[rank],
               parameter < 0 ? "." : toy_[parameter].name);
    }
  }

  const Parameters& toy_;
  std::int64_t ranks_;
  Svg svg_{400, 1000};
};

/// The pieces of a layout in which a collective uses the memory of the whole parameters.
inline std::vector<Piece> pieces_in_place(const nanofsdp::fsdp::Layout& layout) {
  std::vector<Piece> all;
  std::int64_t end = 0;  // of the parameters before, end to end
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const auto piece = layout.piece(i, rank).in_parameter;
      all.push_back({.parameter = i,
                     .rank = rank,
                     .in_buffer = layout.in_whole(i).begin + piece.begin,
                     .in_whole = end + piece.begin,
                     .numel = piece.size()});
    }
    end += layout.parameters()[i].numel();
  }
  return all;
}

/// @param pieces of the toy on 3 ranks, each parameter by itself  @param s of a shard
inline Svg drawing(const Parameters& toy, const std::vector<Piece>& pieces, std::int64_t s) {
  const nanofsdp::fsdp::Layout flat(toy, 3),
      rows(toy, 3, /*alignment=*/1, nanofsdp::fsdp::LayoutKind::row_aligned);
  Picture picture(toy, 3);
  picture.draw("flat", pieces_in_place(flat), flat.shard_numel(), 86);
  picture.draw("per_parameter", pieces, s, 396);
  picture.draw("row_aligned", pieces_in_place(rows), rows.shard_numel(), 706);
  return picture.svg();
}

}  // namespace lesson
