#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lesson {

/// @file
/// @brief Pictures of the lessons: rectangles, lines and words, on a white ground.

/// Colours that stay apart for colour-blind readers and in grey (after Okabe and Ito).
namespace colour {
inline constexpr std::string_view blue = "#56b4e9";
inline constexpr std::string_view orange = "#e69f00";
inline constexpr std::string_view green = "#009e73";
inline constexpr std::string_view red = "#d55e00";
inline constexpr std::string_view violet = "#9a6fd0";
inline constexpr std::string_view grey = "#cccccc";
inline constexpr std::string_view ink = "#333333";

/// One colour, one thing, in every picture of the lessons and on the page of lessons/play.
inline constexpr std::string_view parameters = blue;
inline constexpr std::string_view gradients = orange;
inline constexpr std::string_view optimizer = green;
inline constexpr std::string_view activations = grey;
inline constexpr std::string_view all_gather = violet;
inline constexpr std::string_view reduce_scatter = red;
/// Hatched, so that no colour is needed to see it.
inline constexpr std::string_view waiting = "url(#waiting)";
}  // namespace colour

/// A picture that grows; coordinates in pixels from the upper left corner, whole numbers, so that
/// it is the same text on every machine.
class Svg {
 public:
  Svg(int width, int height) : width_(width), height_(height) {}

  void rect(int x, int y, int width, int height, std::string_view fill);
  void line(int x1, int y1, int x2, int y2, std::string_view stroke = colour::ink);

  /// `x` is the start, the middle or the end of the text.
  enum class At { start, middle, end };
  void text(int x, int y, std::string_view words, At at = At::start);

  /// A rectangle with words in its middle.
  void box(int x, int y, int width, int height, std::string_view fill, std::string_view words);

  /// Boxes within boxes, from brackets: "gpt( wte() h.0(**))". A name's box goes from its opening
  /// bracket to its closing one; a box that is in no other is at the top. A box with none inside is
  /// blue, as it stands for parameters. A star in it is a small square below it, a gradient.
  void nested(int x, int y, std::string_view brackets);

  /// Straight lines from value to value: value i is at x + i * step and y - value * scale.
  void curve(int x, int y, int step, double scale, std::span<const double> values,
             std::string_view stroke);

  std::string text() const;

 private:
  int width_;
  int height_;
  std::string body_;
};

}  // namespace lesson
