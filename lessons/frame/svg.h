#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lesson {

/// @file
/// @brief Draws the pictures of the lessons: rectangles, lines and words, on a white ground.

/// Colours that colour-blind readers can tell apart, also in grey (after Okabe and Ito).
namespace colour {
inline constexpr std::string_view blue = "#56b4e9";
inline constexpr std::string_view orange = "#e69f00";
inline constexpr std::string_view green = "#009e73";
inline constexpr std::string_view red = "#d55e00";
inline constexpr std::string_view violet = "#9a6fd0";
inline constexpr std::string_view grey = "#cccccc";
inline constexpr std::string_view ink = "#333333";

/// Each colour means one thing, in every picture of the lessons and on the page of lessons/play.
inline constexpr std::string_view parameters = blue;
inline constexpr std::string_view gradients = orange;
inline constexpr std::string_view optimizer = green;
inline constexpr std::string_view activations = grey;
inline constexpr std::string_view all_gather = violet;
inline constexpr std::string_view reduce_scatter = red;
/// Waiting is hatched, so that it can be seen without colour.
inline constexpr std::string_view waiting = "url(#waiting)";
}  // namespace colour

/// A picture that grows. Coordinates are pixels from the upper left corner. They are whole numbers,
/// so that the picture is the same text on every machine.
class Svg {
 public:
  Svg(int width, int height) : width_(width), height_(height) {}

  void rect(int x, int y, int width, int height, std::string_view fill);
  void line(int x1, int y1, int x2, int y2, std::string_view stroke = colour::ink);

  /// Whether `x` is the start, the middle or the end of the text.
  enum class At { start, middle, end };
  void text(int x, int y, std::string_view words, At at = At::start);

  /// Draws a rectangle with words in its middle.
  void box(int x, int y, int width, int height, std::string_view fill, std::string_view words);

  /// Draws boxes within boxes, from brackets: "gpt( wte() h.0(**))". The box of a name goes from
  /// its opening bracket to its closing one, and the outermost boxes are at the top. A box without
  /// boxes inside is blue, because it stands for parameters. A star inside is a small square below
  /// it, which stands for a gradient.
  void nested(int x, int y, std::string_view brackets);

  /// Draws straight lines from value to value. Value i is at x + i * step and y - value * scale.
  void curve(int x, int y, int step, double scale, std::span<const double> values,
             std::string_view stroke);

  std::string text() const;

 private:
  int width_;
  int height_;
  std::string body_;
};

}  // namespace lesson
