#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frame/svg.h"

namespace lesson {

/// @file
/// @brief The frame of every lesson program: claims that must hold, answers that are compared with
/// the reader's guesses, one picture, and a last line that says what the program has shown.
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
  /// Arguments are integers, which are the reader's guesses, or --svg=FILE for the picture. The
  /// program refuses any other argument and ends.
  Lesson(int argc, char** argv);

  void print(const std::string& line) const;

  /// Adds a measured answer, in the order of the README's questions.
  void answer(std::int64_t measured) { answers_.push_back(measured); }

  /// Asserts something. If a claim fails, stderr says so at once, and end() returns 1.
  void claim(bool holds, const std::string& what);

  void picture(const Svg& svg) const;

  /// Prints "ok: <shown>" if every claim held, and then the guesses beside the answers, if there
  /// are any.
  /// @return main's exit code
  int end(const std::string& shown) const;

 private:
  std::vector<std::int64_t> guesses_;
  std::vector<std::int64_t> answers_;
  std::string svg_path_;
  bool failed_ = false;
};

}  // namespace lesson
