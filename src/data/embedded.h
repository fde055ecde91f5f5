#pragma once

#include <string_view>

namespace nanofsdp {

/// @file
/// @brief The text of data/tales.grammar inside the binary, so that the program needs no file
/// beside it. src/cmake/embed.cmake generates it.

extern const std::string_view kTalesGrammar;  ///< the input of data::expand_tales()

}  // namespace nanofsdp
