#pragma once

#include <string_view>

namespace nanofsdp {

/// @file
/// @brief data/machines/NAME.txt, byte for byte, inside the binary. `embed_text` generates them
/// (src/cmake/embed.cmake).

extern const std::string_view kA100;
extern const std::string_view kH100;
extern const std::string_view kH10096;
extern const std::string_view kH200;

}  // namespace nanofsdp
