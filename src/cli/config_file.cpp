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
#include "cli/python.h"

namespace nanofsdp {

// The names and texts of data/configs/*.py, which src/cmake/embed.cmake puts into the binary.
// nanogpt.py has the settings that the others leave out.
extern const std::span<const std::pair<std::string_view, const std::string_view&>> kConfigs;
extern const std::string_view kNanoGpt;

namespace cli {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;
// Longest line, because the recursion of the regex has a limit.
constexpr std::size_t kLongest = 1000;

void take_lines(std::string_view text, const std::string& path, PythonNames& names,
                Config& config) {
  static const std::regex import(R"((import|from)\s.*)"),
      assignment(R"(([A-Za-z_]\w*)\s*=(?!=)\s*(.*))");
  std::istringstream lines{std::string(text)};
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line[0] == '#') continue;
    const Fault fault{.what = fmt::format("{}:{}", path, number),
                      .expected = "name = value",
                      .got = "'" + line + "'"};
    std::smatch match;
    const bool odd = line.size() > kLongest || line.find('\0') != line.npos;
    const bool passed_over = !odd && std::regex_match(line, import);
    config.imports |= passed_over;
    if (passed_over) continue;
    if (odd || !std::regex_match(line, match, assignment)) throw UsageError(fault);
    const PythonValue value = evaluate_python(match.str(2), names, fault);
    names.values[match[1]] = value;
    config.settings.push_back({match[1], value.text, number});
  }
}

}  // namespace

Config parse_config(std::string_view text, const std::string& path) {
  PythonNames names;
  Config config;
  take_lines(kNanoGpt, "nanogpt.py", names, config);
  for (Setting& setting : config.settings) setting.line = 0;
  // An editor of Windows begins a file with these bytes.
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  take_lines(text, path, names, config);
  config.helpers = names.read;
  return config;
}

Config read_config(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(file, ignored);
  std::string names;
  for (const auto& [name, text] : kConfigs) {
    if (file.stem() == name && !exists) return parse_config(text, path);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return parse_config(read_text(path,
                                {.what = "config file '" + path + "'",
                                 .expected = "a text file, or one that is built in: " + names},
                                kMostBytes),
                      path);
}

}  // namespace cli
}  // namespace nanofsdp
