#include "base/json.h"

#include <stdexcept>

namespace nanofsdp {

nlohmann::json parsed_json(std::string_view text) {
  constexpr int kDeepest = 16;  // levels of brackets; no file that we read has more
  // nlohmann's parser can count the depth too, but it then takes quadratic time.
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;  // an escaped quote does not end the string
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (depth > kDeepest) throw std::invalid_argument("too many brackets in brackets");
  }
  return nlohmann::json::parse(text);
}

}  // namespace nanofsdp
