#include "base/json.h"

#include <stdexcept>

namespace nanofsdp {
namespace {

constexpr int kDeepest = 16;  // brackets in each other: more than any file has that we read

// nlohmann's parser can be told to count, and is quadratic then.
void require_flat(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;  // what is escaped ends no string
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (depth > kDeepest) throw std::invalid_argument("too many brackets in brackets");
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, Fault fault) try {
  require_flat(text);
  return nlohmann::json::parse(text);
} catch (const std::exception& error) {
  fault.got = error.what();
  throw UsageError(fault);
}

}  // namespace nanofsdp
