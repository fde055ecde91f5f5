#pragma once

#include <string>

namespace nanofsdp {

/// @file
/// @brief How the library was built, in words.

/// How this program was compiled: "GCC 12.2, 512-bit vectors". The vectors decide the speed.
std::string build_info();

}  // namespace nanofsdp
