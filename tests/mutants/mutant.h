#pragma once

#include <cstdlib>
#include <cstring>

/// Whether this process is to have the bug of that name (mutants.txt). The compiler is told to
/// include this file first in the mutation build, so no source of the product knows of it.
inline bool mutant(const char* name) {
  static const char* const chosen = std::getenv("NANOFSDP_MUTANT");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}
