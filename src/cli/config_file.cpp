#include "cli/config_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"

namespace nanofsdp {

// The names and texts of data/configs/*.py, which src/cmake/embed.cmake puts into the binary.
extern const std::span<const std::pair<std::string_view, const std::string_view&>> kConfigs;

namespace cli {
namespace {

// name = constant. Groups: 1 name, 2 and 3 what stands between quotes, 4 any other constant.
const std::regex kAssignment(R"re(\s*(\w+)\s*=\s*)re"
                             R"re((?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|)re"
                             R"re((True|False|[-+.eE\d]*\d[-+.eE\d]*))\s*(?:#[^\n]*)?)re");
constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr std::size_t kLongest = 1000;  // a line; the depth of the regex's recursion is limited

/// What a quoted string means: \n and \t are escapes, other characters behind a \ are themselves.
std::string unescape(const std::string& text) {
  std::string value;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\';
    const char c = text[i += escaped];
    value += escaped && c == 'n' ? '\n' : escaped && c == 't' ? '\t' : c;
  }
  return value;
}

}  // namespace

std::vector<Setting> parse_config(std::string_view text, const std::string& path) {
  std::vector<Setting> settings;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    std::smatch match;
    const bool odd = line.size() > kLongest || line.find('\0') != std::string::npos;
    NANOFSDP_REFUSE_IF(
        odd || !std::regex_match(line, match, kAssignment),
        .what = fmt::format("{}:{}", path, number),
        .expected = "name = a number, True, False or a quoted string",
        .got = "'" + line.substr(first, line.find_last_not_of(" \t\r") + 1 - first) + "'");
    settings.push_back({match[1],
                        match[4].matched ? match.str(4) : unescape(match.str(2) + match.str(3)),
                        number});
  }
  return settings;
}

std::vector<Setting> read_config(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(file, ignored);
  std::string names;
  for (const auto& [name, text] : kConfigs) {
    if (file.stem() == name && !exists) return parse_config(text, path);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return parse_config(read_file(path,
                                {.what = "config file '" + path + "'",
                                 .expected = "a text file, or one that is built in: " + names},
                                kMostBytes),
                      path);
}

}  // namespace cli
}  // namespace nanofsdp
