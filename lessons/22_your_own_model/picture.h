#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "22_your_own_model/training.h"
#include "frame/svg.h"

/// @file
/// @brief The picture of lesson 22: what a rank keeps when all parameters train, and when only
/// adapters do.

namespace lesson {

inline Svg drawing(const Run& all, const Run& adapters) {
  constexpr int kLeft = 130, kBytes = 1500;  // kBytes: of a pixel
  Svg svg(690, 230);
  svg.text(20, 22, "What rank 0 of 4 keeps between two steps of the Llama");
  int y = 45;
  for (const auto& [name, run] : {std::pair("all train", &all), {"adapters train", &adapters}}) {
    svg.text(kLeft - 10, y + 25, name, Svg::At::end);
    int x = kLeft;
    const auto bar = [&, &bytes = run->bytes](MemoryClass kind, std::string_view colour,
                                              const std::string& label) {
      const int width = static_cast<int>(bytes.at(kind) / kBytes);
      width < 60 ? svg.rect(x, y, width, 40, colour) : svg.box(x, y, width, 40, colour, label);
      x += width;
    };
    bar(MemoryClass::parameter_shards, colour::blue, "parameters");
    bar(MemoryClass::gradient_shards, colour::orange, "gradients");
    bar(MemoryClass::optimizer, colour::green, "moments (optimizer)");
    if (run == &adapters) {
      svg.text(x + 8, y + 25,
               fmt::format("gradients {} bytes, moments {} bytes",
                           run->bytes.at(MemoryClass::gradient_shards),
                           run->bytes.at(MemoryClass::optimizer)));
    }
    y += 60;
  }
  const int axis = y + 5;
  svg.line(kLeft, axis, kLeft + 540, axis);
  for (int bytes = 0; bytes <= 800'000; bytes += 200'000) {
    svg.line(kLeft + bytes / kBytes, axis, kLeft + bytes / kBytes, axis + 6);
    svg.text(kLeft + bytes / kBytes, axis + 22, std::to_string(bytes / 1000), Svg::At::middle);
  }
  svg.text(kLeft + 270, axis + 44, "kB (1,000 bytes)", Svg::At::middle);
  return svg;
}

}  // namespace lesson
