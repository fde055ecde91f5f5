#pragma once

#include <string_view>

namespace nanofsdp {

/// @file
/// @brief data/tales.grammar, byte for byte, inside the binary, so that it needs no file beside it.
/// `embed_text` generates it (src/cmake/embed.cmake).

extern const std::string_view kTalesGrammar;  ///< input of data::expand_tales()

}  // namespace nanofsdp
