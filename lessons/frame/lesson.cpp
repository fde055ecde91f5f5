#include "frame/lesson.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace lesson {

Lesson::Lesson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--svg=")) {
      svg_path_ = word.substr(6);
      continue;
    }
    std::int64_t guess = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), guess);
    if (error != std::errc() || end != word.data() + word.size()) {
      fmt::print(stderr, "A guess is an integer such as 3000000, without commas; got '{}'.\n",
                 word);
      std::exit(2);
    }
    guesses_.push_back(guess);
  }
}

void Lesson::print(const std::string& line) const { fmt::print("{}\n", line); }

void Lesson::claim(bool holds, const std::string& what) {
  if (holds) return;
  failed_ = true;
  std::fflush(stdout);
  fmt::print(stderr, "FAILED: {}\n", what);
}

void Lesson::picture(const Svg& svg) const {
  if (!svg_path_.empty()) std::ofstream(svg_path_) << svg.text();
}

int Lesson::end(const std::string& shown) const {
  if (failed_) return 1;
  print("ok: " + shown);
  if (guesses_.empty()) return 0;
  print(fmt::format("\n{:<10}{:>16}{:>16}", "question", "yours", "measured"));
  bool surprised = false;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const bool guessed = i < guesses_.size();
    const std::string yours = guessed ? std::to_string(guesses_[i]) : "-";
    const bool surprise = guessed && guesses_[i] != answers_[i];
    surprised |= surprise;
    const char* mark = surprise ? "  a surprise" : guessed ? "  right" : "";
    print(fmt::format("{:<10}{:>16}{:>16}{}", i + 1, yours, answers_[i], mark));
  }
  if (guesses_.size() > answers_.size()) {
    print(fmt::format("There are only {} questions.", answers_.size()));
  }
  if (surprised) {
    print(
        "A surprise teaches most. The fold \"Answer\" on the page says where the number comes "
        "from.");
  }
  return 0;
}

}  // namespace lesson
