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
/// @brief What lesson 23 cuts, and its picture.

namespace lesson {

using Parameters = std::vector<nanofsdp::fsdp::ParameterSpec>;

/// What one rank owns of one parameter, in elements.
struct Piece {
  std::size_t parameter;   ///< its number in the unit
  std::int64_t rank;       ///< the owner
  std::int64_t in_buffer;  ///< where it begins in what a collective moves: all shards end to end
  std::int64_t in_whole;   ///< where it begins among whole parameters, end to end
  std::int64_t numel;      ///< may be 0
};

/// The toy's matrices and the buffer, drawn from pieces. A shade is a rank; grey is padding.
class Picture {
 public:
  Picture(const Parameters& toy, std::int64_t ranks) : toy_(toy), ranks_(ranks) {
    svg_.text(16, 22,
              "Which of 3 ranks owns which element: digit and shade are the rank, grey is padding");
  }

  /// @param x of the matrices  @param y of the buffer
  void draw(std::string_view name, const std::vector<Piece>& pieces, std::int64_t s, int x, int y) {
    svg_.text(x, 50, fmt::format("{}: the matrices", name));
    std::vector<int> owners(numel()), parameters(s * ranks_, -1);
    for (const Piece& p : pieces) {
      std::fill_n(owners.begin() + p.in_whole, p.numel, p.rank);
      std::fill_n(parameters.begin() + p.in_buffer, p.numel, p.parameter);
    }
    draw_matrices(owners, x);
    const auto padding = std::ranges::count(parameters, -1);
    svg_.text(16, y,
              fmt::format("{}: what the collectives move, {} elements, {} of them padding", name,
                          parameters.size(), padding));
    draw_buffer(parameters, s, y + 8);
  }

  const Svg& svg() const { return svg_; }

 private:
  static constexpr std::array<std::string_view, 3> kShades = {colour::blue, "#a3d6f4", "#dceffb"};

  std::int64_t numel() const {
    std::int64_t sum = 0;
    for (const auto& p : toy_) sum += p.numel();
    return sum;
  }

  void draw_matrices(const std::vector<int>& owners, int x) {
    std::size_t e = 0;
    for (const auto& p : toy_) {
      const int columns = static_cast<int>(p.shape[1]);
      svg_.text(x, 72, fmt::format("{}({},{})", p.name, p.shape[0], columns));
      for (int i = 0; i < p.numel(); ++i, ++e) {
        svg_.box(x + 20 * (i % columns), 80 + 20 * (i / columns), 20, 20, kShades[owners[e]],
                 std::to_string(owners[e]));
      }
      x += 20 * columns + 24;
    }
  }

  void draw_buffer(const std::vector<int>& parameters, std::int64_t s, int y) {
    for (std::size_t e = 0; e < parameters.size(); ++e) {
      const auto rank = e / static_cast<std::size_t>(s);
      const int x = 16 + static_cast<int>(16 * e + 8 * rank), i = parameters[e];
      if (e % static_cast<std::size_t>(s) == 0) svg_.text(x, y + 36, fmt::format("rank {}", rank));
      svg_.box(x, y, 16, 20, i < 0 ? colour::grey : kShades[rank], i < 0 ? "." : toy_[i].name);
    }
  }

  const Parameters& toy_;
  std::int64_t ranks_;
  Svg svg_{720, 380};
};

/// Lesson 08's cut of a unit.
inline std::vector<Piece> flat_pieces(const nanofsdp::fsdp::Layout& layout) {
  std::vector<Piece> all;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const auto piece = layout.piece(i, rank).in_parameter;
      const std::int64_t begin = layout.in_whole(i).begin + piece.begin;
      all.push_back({i, rank, begin, begin, piece.size()});
    }
  }
  return all;
}

/// @param pieces of the toy on 3 ranks, each parameter by itself  @param s of a shard
inline Svg drawing(const Parameters& toy, const std::vector<Piece>& pieces, std::int64_t s) {
  const nanofsdp::fsdp::Layout flat(toy, 3);
  Picture picture(toy, 3);
  picture.draw("flat", flat_pieces(flat), flat.shard_numel(), 16, 252);
  picture.draw("per_parameter", pieces, s, 380, 322);
  return picture.svg();
}

}  // namespace lesson
