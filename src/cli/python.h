#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"

namespace nanofsdp::cli {

/// @file
/// @brief The part of Python that nanoGPT's config files use: the value of one expression.

struct PythonValue {
  std::string text;                ///< the option's value: a string has no quotes here
  std::optional<double> number{};  ///< strings, True and False have none
  bool is_string = false;
};

/// The names that a file has assigned so far, and those that it has read.
struct PythonNames {
  std::map<std::string, PythonValue> values{};
  std::set<std::string> read{};
};

/// Computes numbers with + - * / // % ** and parentheses, joins strings with +, and calls str(x),
/// int(x) and time.time(). A number that stands alone keeps the digits that were typed. Whole
/// numbers are exact up to 2^53, and a whole result has no fraction in its text, as in 600000 / 2.
/// @param text one line, which a comment may end
/// @param fault says where the text stands
/// @throws UsageError saying what was expected
PythonValue evaluate_python(std::string_view text, PythonNames& names, const Fault& fault);

}  // namespace nanofsdp::cli
