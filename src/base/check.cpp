#include "base/check.h"

#include <fmt/format.h>

namespace nanofsdp {

UsageError::UsageError(const Fault& fault) : std::runtime_error(describe(fault)) {}

std::string describe(const Fault& fault) {
  std::string text = fault.what;
  const char* separator = ": ";
  if (!fault.expected.empty()) {
    text += separator + ("expected " + fault.expected);
    separator = ", ";
  }
  if (!fault.got.empty()) text += separator + ("got " + fault.got);
  if (!fault.hint.empty()) text += "; " + fault.hint;
  return text;
}

std::string describe(const Fault& fault, const char* file, int line) {
  // Only the path below src/: the same message on every machine.
  std::string path = file;
  if (const auto at = path.rfind("src/"); at != std::string::npos) path = path.substr(at);
  return fmt::format("{} [{}:{}]", describe(fault), path, line);
}

}  // namespace nanofsdp
