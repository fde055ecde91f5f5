#include "base/check.h"

#include <fmt/format.h>

#include <new>
#include <system_error>

namespace nanofsdp {

namespace {

// Shortens a user's text to one line. Characters that would move the cursor are shown as codes.
std::string shown(const std::string& text) {
  constexpr std::size_t kLongest = 1000;
  std::string line;
  for (const char c : text) {
    if (line.size() >= kLongest) return line + "...";
    const auto code = static_cast<unsigned char>(c);
    const bool c1 = code >= 0x80 && code < 0xa0 && line.ends_with('\xc2');  // U+0080 to U+009F
    const bool control = code < ' ' || code == 0x7f || c1;
    line += c == '\n' ? "\\n" : control ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return line;
}

}  // namespace

UsageError::UsageError(const Fault& fault) : std::runtime_error(shown(describe(fault))) {}

RunError::RunError(const Fault& fault) : std::runtime_error(describe(fault)) {}

std::string words_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "memory ran out" : error.what();
}

int with_named_errors(const std::function<int()>& work) try {
  return work();
} catch (const std::bad_alloc&) {
  throw std::runtime_error("memory ran out; use fewer ranks, less batch or a smaller model");
} catch (const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) throw;
  throw std::runtime_error("a thread could not be started; use fewer, or raise `ulimit -u`");
} catch (const std::exception&) {
  throw;
} catch (...) {
  throw std::runtime_error("an exception that is no std::exception was thrown");
}

std::string describe(const Fault& fault) {
  std::string text = fault.what;
  if (!fault.expected.empty()) text += ": expected " + fault.expected;
  if (!fault.got.empty()) text += (fault.expected.empty() ? ": got " : ", got ") + fault.got;
  if (!fault.hint.empty()) text += "; " + fault.hint;
  return text;
}

std::string describe(const Fault& fault, const char* file, int line) {
  // The message has only the path below src/, so it is the same on every machine.
  std::string path = file;
  if (const auto at = path.rfind("src/"); at != std::string::npos) path = path.substr(at);
  return fmt::format("{} [{}:{}]", describe(fault), path, line);
}

}  // namespace nanofsdp
