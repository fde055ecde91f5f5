#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief What every lesson program has in common: claims that must hold, answers to compare with
/// the reader's guesses, one picture, and a last line that says what was shown.
///
///     int main(int argc, char** argv) {
///       lesson::Lesson lesson(argc, argv);
///       lesson.print("toy: 25 elements");  // stdout, which the README quotes to the byte
///       lesson.answer(13);                 // to the README's first question
///       lesson.claim(a == b, "a equals b");
///       return lesson.end("a equals b");   // prints "ok: a equals b"
///     }

class Lesson {
 public:
  /// Arguments are the reader's guesses, integers; or --svg=FILE, where the picture goes. At any
  /// other the program ends with a word about it.
  Lesson(int argc, char** argv);

  void print(const std::string& line) const;

  /// What was measured, in the order of the README's questions.
  void answer(std::int64_t measured) { answers_.push_back(measured); }

  /// Something the lesson asserts. One that fails is told at once on stderr, and end() returns 1.
  void claim(bool holds, const std::string& what);

  void picture(const Svg& svg) const;

  /// Prints "ok: <shown>" if every claim held, then the guesses beside the answers if there are
  /// any.
  /// @return main's exit code
  int end(const std::string& shown) const;

 private:
  std::vector<std::int64_t> guesses_;
  std::vector<std::int64_t> answers_;
  std::string svg_path_;
  bool failed_ = false;
};

}  // namespace lesson
