#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"

namespace nanofsdp {

/// @file
/// @brief JSON that comes from a file: it may be damaged, or made to do damage.

/// The value of a text. Where a program does not know better, use this and not nlohmann's own
/// parse(): what nests without end is refused before a recursion over it has no stack left.
/// @param fault what the text is, and what it should be
/// @throws UsageError of the fault, with what is wrong about the text
nlohmann::json parse_json(std::string_view text, Fault fault);

/// What `convert` makes of that value. It may throw whatever a value of another form makes it
/// throw.
/// @throws UsageError of the fault, with what was thrown
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
