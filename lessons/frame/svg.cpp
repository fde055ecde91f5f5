#include "frame/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lesson {
namespace {

std::string escaped(std::string_view words) {
  std::string text;
  for (const char c : words) {
    if (c == '<') {
      text += "&lt;";
    } else if (c == '&') {
      text += "&amp;";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

void Svg::rect(int x, int y, int width, int height, std::string_view fill) {
  body_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="#ffffff"/>)",
                       x, y, width, height, fill) +
           "\n";
}

void Svg::line(int x1, int y1, int x2, int y2, std::string_view stroke) {
  body_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}"/>)", x1, y1, x2, y2,
                       stroke) +
           "\n";
}

void Svg::text(int x, int y, std::string_view words, At at) {
  const char* anchor = at == At::start ? "start" : at == At::middle ? "middle" : "end";
  body_ += fmt::format(R"(<text x="{}" y="{}" text-anchor="{}">{}</text>)", x, y, anchor,
                       escaped(words)) +
           "\n";
}

void Svg::box(int x, int y, int width, int height, std::string_view fill, std::string_view words) {
  rect(x, y, width, height, fill);
  text(x + width / 2, y + height / 2 + 5, words, At::middle);
}

void Svg::nested(int x, int y, std::string_view brackets) {
  constexpr int kEdge = 8;                        // between the edges of a box and the boxes inside
  std::vector<std::pair<std::string, int>> open;  // names, and the places where their boxes begin
  std::string name;
  int stars = 0;
  for (const char c : brackets) {
    const int top = y + 30 * static_cast<int>(open.size());
    if (c == '*') {
      rect(x - kEdge + 7 * stars++, top, 6, 6, colour::gradients);
    } else if (c == '(') {
      open.emplace_back(std::exchange(name, ""), std::exchange(x, x + kEdge));
    } else if (c == ')') {
      const auto [closed, begin] = open.back();
      const bool has_children = x > begin + kEdge;
      x = has_children ? x + kEdge : begin + std::max(44, 9 * static_cast<int>(closed.size()));
      rect(begin, top - 30, x - begin, 26, has_children ? "#eeeeee" : colour::parameters);
      text(begin + 3, top - 13, closed);
      open.pop_back();
      stars = 0;
    } else if (c != ' ') {
      name += c;
    }
  }
}

void Svg::curve(int x, int y, int step, double scale, std::span<const double> values,
                std::string_view stroke) {
  const auto at = [&](std::size_t i) { return static_cast<int>(y - values[i] * scale); };
  for (std::size_t i = 1; i < values.size(); ++i, x += step) {
    line(x, at(i - 1), x + step, at(i), stroke);
  }
}

std::string Svg::text() const {
  // The pattern is defined only if it is used, so a picture without waiting does not contain it.
  const char* const hatching =
      body_.find(colour::waiting) == body_.npos
          ? ""
          : R"(<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse">)"
            R"(<path d="M0,6 L6,0" stroke="#777777"/></pattern></defs>)"
            "\n";
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" style="max-width:{}px">)"
      "\n<style>text {{ font: 13px sans-serif; fill: #333333 }}</style>\n"
      R"(<rect width="{}" height="{}" fill="#ffffff"/>)"
      "\n{}{}</svg>\n",
      width_, height_, width_, width_, height_, hatching, body_);
}

}  // namespace lesson
