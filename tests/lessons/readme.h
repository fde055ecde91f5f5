#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/sha256.h"
#include "support/temporary_directory.h"

namespace nanofsdp::lessons {

/// @file
/// @brief A lesson's README as tests read it: prose, and fenced blocks that quote a source or an
/// output.
///
///     <!-- from: lessons/08_shard_and_pad/shard_and_pad.cpp#piece -->    a piece of a source file
///     <!-- output: lessons/08_shard_and_pad -->                          what its program prints
///
/// With UPDATE_LESSONS=1 in the environment, a block that differs is rewritten, and no test fails.

/// The folder with the pages. NANOFSDP_PAGES may name a copy, in which digits.py changes a digit.
inline const std::filesystem::path kSource =
    std::getenv("NANOFSDP_PAGES") ? std::getenv("NANOFSDP_PAGES") : NANOFSDP_SOURCE_DIR;

/// A hash of eight characters. It changes if a digit of the text changes, or the order of the
/// digits.
inline std::string hash_of_digits(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return testing::sha256(std::span<const char>(digits)).substr(0, 8);
}

/// The folders 01_first_loss, 02_..., in order.
inline std::vector<std::filesystem::path> lesson_folders() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "lessons")) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 3 && name[2] == '_' && std::isdigit(name[0])) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

/// The number "08" of .../08_shard_and_pad, and its name "shard_and_pad".
inline std::string number_of(const std::filesystem::path& folder) {
  return folder.filename().string().substr(0, 2);
}
inline std::string name_of(const std::filesystem::path& folder) {
  return folder.filename().string().substr(3);
}

/// A fenced block with the comment before it.
struct Quote {
  std::string kind;    ///< "from" or "output"
  std::string source;  ///< the source that the comment names
  std::string text;    ///< the text between the fences
};

class Readme {
 public:
  explicit Readme(std::filesystem::path path)
      : path_(std::move(path)), text_(testing::read_file(path_.string())) {}

  const std::string& text() const { return text_; }

  std::vector<Quote> quotes() const {
    static const std::regex comment("<!-- (from|output): (\\S+) -->\n```[a-z]*\n");
    std::vector<Quote> found;
    for (std::sregex_iterator m(text_.begin(), text_.end(), comment), end; m != end; ++m) {
      const auto begin = static_cast<std::size_t>(m->position() + m->length());
      const std::size_t fence = text_.find("```", begin);
      std::string text = text_.substr(begin, fence - begin);
      if (text.ends_with('\n')) text.pop_back();
      found.push_back({(*m)[1], (*m)[2], text});
    }
    return found;
  }

  /// The text without fenced blocks, comments, and the targets of links.
  std::string prose() const {
    return without(text_, {"```[\\s\\S]*?```", "<!--[\\s\\S]*?-->", "\\]\\([^)]*\\)"});
  }

  /// prose() without what lies behind folds: answers, hints, spoilers.
  std::string open_prose() const {
    return without(text_, {"<details>[\\s\\S]*?</details>", "```[\\s\\S]*?```", "<!--[\\s\\S]*?-->",
                           "\\]\\([^)]*\\)"});
  }

  /// The text without the parts that other tests compare: blocks that quote, comments, targets of
  /// links.
  std::string unquoted() const {
    return without(text_, {"<!-- (from|output): \\S+ -->\n```[\\s\\S]*?```", "<!--[\\s\\S]*?-->",
                           "\\]\\([^)]*\\)"});
  }

  /// The formulas, without their words.
  std::string formulas() const {
    static const std::regex block("```math\n([\\s\\S]*?)```");
    std::string found;
    for (std::sregex_iterator m(text_.begin(), text_.end(), block), end; m != end; ++m) {
      found += without((*m)[1], {"\\\\(text|begin|end)\\{[^}]*\\}", "\\\\[A-Za-z]+"});
    }
    return found;
  }

  /// The text in `<!-- numbers: ... -->` lines: "112 = 16 * 7".
  std::vector<std::string> equations() const {
    static const std::regex line("<!-- numbers: ([\\s\\S]*?) -->");
    std::vector<std::string> found;
    for (std::sregex_iterator m(text_.begin(), text_.end(), line), end; m != end; ++m) {
      std::string rest = (*m)[1];
      for (std::size_t semicolon; (semicolon = rest.find(';')) != rest.npos;) {
        found.push_back(rest.substr(0, semicolon));
        rest.erase(0, semicolon + 1);
      }
      found.push_back(rest);
    }
    return found;
  }

  /// Writes the seal at the end of the page.
  void reseal(const std::string& seal) {
    text_ = std::regex_replace(text_, std::regex("\\n*<!-- seal: .* -->\\n*$"), "");
    while (text_.ends_with('\n')) text_.pop_back();
    text_ += "\n\n" + seal + "\n";
    std::ofstream(path_) << text_;
  }

  /// Replaces the quote by `actual`.
  void rewrite(const Quote& quote, const std::string& actual) {
    const std::string head = "<!-- " + quote.kind + ": " + quote.source + " -->\n```";
    const std::size_t begin = text_.find('\n', text_.find(head) + head.size()) + 1;
    text_.replace(begin, text_.find("```", begin) - begin, actual + "\n");
    std::ofstream(path_) << text_;
  }

 private:
  static std::string without(std::string text, std::initializer_list<const char*> patterns) {
    for (const char* gone : patterns) text = std::regex_replace(text, std::regex(gone), " ");
    return text;
  }

  std::filesystem::path path_;
  std::string text_;
};

inline bool updating() { return std::getenv("UPDATE_LESSONS") != nullptr; }

/// The lines between two markers `//! [name]`, in Python `#! [name]`, without their common indent
/// and other markers.
/// @throws std::runtime_error unless there are exactly two
inline std::string snippet(const std::string& source, const std::string& name) {
  const std::string marker = "! [" + name + "]";
  std::vector<std::string> lines;
  int markers = 0;
  std::size_t indent = std::string::npos;
  for (std::size_t begin = 0; begin < source.size();) {
    const std::size_t end = std::min(source.find('\n', begin), source.size());
    const std::string line = source.substr(begin, end - begin);
    begin = end + 1;
    if (line.find(marker) != line.npos) {
      ++markers;
    } else if (markers == 1 && line.find("! [") == line.npos) {
      lines.push_back(line);
      if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
    }
  }
  if (markers != 2) throw std::runtime_error("two markers " + marker + " wanted");
  std::string text;
  for (const std::string& line : lines) {
    text += (text.empty() ? "" : "\n") + (line.empty() ? line : line.substr(indent));
  }
  return text;
}

/// The exit code and the output of a program.
struct Ran {
  int code = -1;
  std::string out;
};

inline Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) ran.out += static_cast<char>(c);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// The path of a lesson's program, which is built.
inline std::string program(const std::filesystem::path& folder) {
  return std::string(NANOFSDP_BINARY_DIR) + "/lessons/lesson_" + number_of(folder);
}

}  // namespace nanofsdp::lessons
