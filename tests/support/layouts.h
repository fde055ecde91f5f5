#pragma once

#include <string>

#include "fsdp/layout.h"

namespace nanofsdp::testing {

/// @file
/// @brief The layouts of shards, for tests that try all of them.

/// All layouts.
inline constexpr fsdp::LayoutKind kLayouts[] = {
    fsdp::LayoutKind::flat, fsdp::LayoutKind::per_parameter, fsdp::LayoutKind::row_aligned};

/// The name that the command line gives a layout.
inline std::string name_of(fsdp::LayoutKind kind) {
  constexpr const char* names[] = {"flat", "per_parameter", "row_aligned"};
  return names[static_cast<int>(kind)];
}

}  // namespace nanofsdp::testing
