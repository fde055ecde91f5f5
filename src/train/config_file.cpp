#include "train/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "train/embedded.h"

namespace nanofsdp::train {
namespace {

struct BuiltIn {
  std::string_view name;
  const std::string_view& text;
};

const BuiltIn kBuiltIns[] = {{"train_shakespeare_char", kTrainShakespeareChar}};

constexpr std::string_view kSpace = " \t\r";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool is_name(std::string_view text) {
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return !text.empty();
}

/// Takes a quoted string off the front of `rest`. False if its quote never ends.
bool take_quoted(std::string_view& rest, std::string& value) {
  const char quote = rest.front();
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == quote) {
      rest.remove_prefix(i + 1);
      return true;
    }
    if (rest[i] == '\\' && i + 1 < rest.size()) {
      const char escaped = rest[++i];
      value += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    } else {
      value += rest[i];
    }
  }
  return false;
}

/// Takes True, False or a number off the front of `rest`.
bool take_constant(std::string_view& rest, std::string& value) {
  const std::string_view word = trim(rest.substr(0, rest.find('#')));
  rest = {};
  value = word;
  if (word == "True" || word == "False") return true;
  // Enough to tell a number from an expression; the option itself reads it.
  return !word.empty() && word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

}  // namespace

std::vector<Setting> parse_config(std::string_view text, const std::string& path) {
  std::vector<Setting> settings;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view whole = trim(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), text.find('\n')));
    if (!text.empty()) text.remove_prefix(1);
    if (whole.empty() || whole.front() == '#') continue;

    const auto equals = whole.find('=');
    Setting setting{std::string(trim(whole.substr(0, equals))), "", line};
    bool understood = equals != std::string_view::npos && is_name(setting.name);
    if (understood) {
      std::string_view rest = trim(whole.substr(equals + 1));
      const bool quoted = rest.starts_with('\'') || rest.starts_with('"');
      understood = quoted ? take_quoted(rest, setting.value) : take_constant(rest, setting.value);
      rest = trim(rest);
      understood = understood && (rest.empty() || rest.front() == '#');
    }
    if (!understood) {
      throw UsageError({.what = fmt::format("{}:{}", path, line),
                        .expected = "name = a number, True, False or a quoted string",
                        .got = "'" + std::string(whole) + "'"});
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<Setting> read_config(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    if (std::ifstream file(path, std::ios::binary); file) {
      return parse_config(std::string(std::istreambuf_iterator<char>(file), {}), path);
    }
  }
  std::string names;
  for (const BuiltIn& config : kBuiltIns) {
    if (std::filesystem::path(path).stem() == config.name) return parse_config(config.text, path);
    names += (names.empty() ? "" : ", ") + std::string(config.name);
  }
  throw UsageError({.what = "config file '" + path + "'",
                    .expected = "a file that can be read, or one built in: " + names});
}

}  // namespace nanofsdp::train
