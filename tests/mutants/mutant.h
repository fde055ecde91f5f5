#pragma once

#include <cstdlib>
#include <cstring>

/// Whether this process has the bug with this name (mutants.txt). In the mutation build the
/// compiler includes this file first, so the sources of the product do not mention it.
inline bool mutant(const char* name) {
  static const char* const chosen = std::getenv("NANOFSDP_MUTANT");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}
