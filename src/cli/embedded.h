#pragma once

#include <string_view>

namespace nanofsdp {

/// @file
/// @brief data/configs/NAME.py, nanoGPT's recipes, byte for byte, inside the binary. `embed_text`
/// generates them (src/cmake/embed.cmake); the names are those of the files.

extern const std::string_view kTrainShakespeareChar;
extern const std::string_view kTrainShakespeareCharCpu;
extern const std::string_view kTrainGpt2;
extern const std::string_view kFinetuneShakespeare;

}  // namespace nanofsdp
