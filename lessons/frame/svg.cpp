#include "frame/svg.h"

#include <fmt/format.h>

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

std::string Svg::text() const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" style="max-width:{}px">)"
      "\n<style>text {{ font: 13px sans-serif; fill: #333333 }}</style>\n"
      R"(<rect width="{}" height="{}" fill="#ffffff"/>)"
      "\n{}</svg>\n",
      width_, height_, width_, width_, height_, body_);
}

}  // namespace lesson
