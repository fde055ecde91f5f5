#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

/// Reads our own sources, for the tests that keep the house in order.
namespace house {

inline const std::filesystem::path kRoot = NANOFSDP_SOURCE_DIR;

/// The files below `folder` with one of the `extensions`, sorted; none if the folder does not
/// exist. Paths are relative to the repository, here and in all functions below.
inline std::vector<std::filesystem::path> files(const std::filesystem::path& folder,
                                                const std::vector<std::string>& extensions) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(kRoot / folder)) return found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / folder)) {
    if (entry.is_regular_file() &&
        std::ranges::count(extensions, entry.path().extension().string()) > 0) {
      found.push_back(entry.path().lexically_relative(kRoot));
    }
  }
  std::ranges::sort(found);
  return found;
}

inline std::string read(const std::filesystem::path& file) {
  std::ifstream in(kRoot / file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

/// C++ without its comments. Text inside string and character literals stays.
inline std::string without_comments(std::string_view text) {
  std::string code;
  std::size_t i = 0;
  const auto copy_until = [&](std::string_view end, std::size_t from) {
    const std::size_t stop = std::min(text.find(end, from), text.size());
    const std::size_t past = std::min(stop + end.size(), text.size());
    code += text.substr(i, past - i);
    i = past;
  };
  while (i < text.size()) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t past = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
      code.append(std::ranges::count(text.substr(i, past - i), '\n'), '\n');
      i = past;
    } else if (rest.starts_with("R\"")) {
      const std::size_t open = text.find('(', i);
      copy_until(")" + std::string(text.substr(i + 2, open - i - 2)) + "\"", open);
    } else if (const bool digit_separator = i > 0 && std::isxdigit(text[i - 1]) != 0;
               text[i] == '"' || (text[i] == '\'' && !digit_separator)) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
      code += text.substr(i, end + 1 - i);
      i = end + 1;
    } else {
      code += text[i++];
    }
  }
  return code;
}

/// The number of lines that hold more than blanks and comments. Every budget counts these.
inline int lines_of_code(const std::filesystem::path& file) {
  const auto blank = [](const std::string& line) {
    return line.find_first_not_of(" \t\r") == std::string::npos;
  };
  const std::vector<std::string> all = lines(without_comments(read(file)));
  return static_cast<int>(all.size() - std::ranges::count_if(all, blank));
}

/// The files that `file` includes, as written between the quotes or angle brackets.
inline std::vector<std::string> includes(const std::filesystem::path& file) {
  static const std::regex pattern(R"(\s*#\s*include\s*["<]([^">]+)[">].*)");
  std::vector<std::string> found;
  std::smatch match;
  for (const std::string& line : lines(without_comments(read(file)))) {
    if (std::regex_match(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

}  // namespace house
