#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"

namespace nanofsdp {

/// @file
/// @brief Reads JSON from files, which may be damaged or made to do damage.

/// Parses a text. Programs use this instead of nlohmann's parse(), because it refuses values that
/// are nested so deep that a recursion over them would need more stack than there is.
/// @param fault what the text is, and what it should be
/// @throws UsageError of the fault, with the error that the parser found in the text
nlohmann::json parse_json(std::string_view text, Fault fault);

/// Parses a text, and converts the value. If the value has another form than `convert` expects,
/// `convert` may throw any exception.
/// @throws UsageError of the fault, with the text of that exception
template <class Convert>
auto parse_json(std::string_view text, Fault fault, const Convert& convert) try {
  return convert(parse_json(text, fault));
} catch (const UsageError&) {
  throw;
} catch (const std::exception& error) {
  fault.got = error.what();
  throw UsageError(fault);
}

}  // namespace nanofsdp
