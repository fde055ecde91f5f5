#pragma once

#include <exception>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"

namespace nanofsdp {

/// @file
/// @brief Reads JSON from files, which may be damaged or made to do damage.

/// Parses a text. It refuses values that are nested so deep that a recursion over them would need
/// more stack than there is.
/// @throws std::exception with the error that the parser found in the text
nlohmann::json parsed_json(std::string_view text);

/// Parses a text, and converts the value. Programs use this instead of nlohmann's parse(). If the
/// value has another form than `convert` expects, `convert` may throw any exception.
/// @param fault what the text is, and what it should be
/// @throws UsageError of the fault, with the text of the exception of the parser or of `convert`;
///   std::bad_alloc, which is not the text's fault
template <class Convert = std::identity>
auto parse_json(std::string_view text, Fault fault, const Convert& convert = {}) try {
  return convert(parsed_json(text));
} catch (const UsageError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  fault.got = error.what();
  throw UsageError(fault);
}

}  // namespace nanofsdp
