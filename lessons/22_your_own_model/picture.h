#pragma once

#include <fmt/format.h>

#include <string>
#include <tuple>
#include <utility>

#include "22_your_own_model/training.h"
#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 22: what a rank keeps when all parameters train, and when only
/// adapters train.

namespace lesson {

inline Svg drawing(const Run& all, const Run& adapters) {
  constexpr int kLeft = 20, kBytes = 2000;  // kBytes: of a pixel
  Svg svg(450, 275);
  svg.text(kLeft, 22, "What rank 0 of 4 keeps between two steps of the Llama");
  int y = 40;
  for (const auto& [name, run] :
       {std::pair("all parameters train", &all), {"only adapters train", &adapters}}) {
    svg.text(kLeft, y + 14, name);
    int x = kLeft;
    std::string too_small;  // labels that stand beside the bar
    for (const auto& [kind, fill, label] :
         {std::tuple(MemoryClass::parameter_shards, colour::parameters, "parameters"),
          {MemoryClass::gradient_shards, colour::gradients, "gradients"},
          {MemoryClass::optimizer, colour::optimizer, "moments"}}) {
      const std::int64_t bytes = run->bytes.at(kind);
      const int width = static_cast<int>(bytes / kBytes);
      svg.box(x, y + 22, width, 40, fill, width < 60 ? "" : label);
      if (width < 60)
        too_small += fmt::format("{}{} {} kB", too_small.empty() ? "" : ", ", label, bytes / 1000);
      x += width;
    }
    svg.text(x + 8, y + 47, too_small);
    y += 80;
  }
  svg.line(kLeft, y + 10, kLeft + 400, y + 10);
  for (int bytes = 0; bytes <= 800'000; bytes += 200'000) {
    svg.line(kLeft + bytes / kBytes, y + 10, kLeft + bytes / kBytes, y + 16);
    svg.text(kLeft + bytes / kBytes, y + 32, std::to_string(bytes / 1000), Svg::At::middle);
  }
  svg.text(kLeft + 200, y + 54, "kB (1,000 bytes)", Svg::At::middle);
  return svg;
}

}  // namespace lesson
