#pragma once

#include <string_view>

/// The bug that is switched on, which is none at first (broken.py).
inline std::string_view chosen_mutant;

/// Whether this bug is switched on. The compiler includes this header before every file.
inline bool mutant(std::string_view name) { return chosen_mutant == name; }
