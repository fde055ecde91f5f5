#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#ifdef NANOFSDP_CHECKER  // `make grade` gives a checker another main()
#define main NANOFSDP_CHECKER
#endif

namespace lesson {

/// @file
/// @brief Compares the reader's code with the specification. Checkers use it.
///
///     int main() {
///       lesson::Exercise exercise("Layout::piece");
///       for (...) exercise.expect(yours, spec, "n = {}, W = {}", n, W);
///       return exercise.end();
///     }

/// The seed of a checker's random cases. It is always the same, unless NANOFSDP_SEED gives another
/// one, as `make grade` does.
inline std::uint32_t seed(std::uint32_t usual) {
  const char* other = std::getenv("NANOFSDP_SEED");
  return other == nullptr ? usual
                          : usual + static_cast<std::uint32_t>(std::strtoul(other, nullptr, 10));
}

/// A number that may differ a little: by `tolerance` times (1 + |the expected number|). It is for
/// sums whose order the reader may choose.
struct Near {
  double value;
  double tolerance;

  friend bool operator==(const Near& yours, const Near& spec) {
    return std::abs(yours.value - spec.value) <= spec.tolerance * (1 + std::abs(spec.value));
  }
  friend std::string to_string(const Near& near) { return fmt::format("{:.4f}", near.value); }
};

class Exercise {
 public:
  explicit Exercise(std::string function) : function_(std::move(function)) {
    if (checking_ == 0) std::atexit(refuse_an_early_exit);
    checking_ = getpid();
    ++open_;
  }

  /// Prints the first difference, in words that name the case, and no later one.
  /// @return whether the two are equal
  template <class T, class... Case>
  bool expect(const T& yours, const T& spec, fmt::format_string<Case...> text, Case&&... values) {
    ++cases_;
    if (failed_ || yours == spec) return !failed_;
    failed_ = true;
    fmt::print("{}: not yet. First difference, {}:\n  Yours: {}\n  Right: {}\n", function_,
               fmt::format(text, std::forward<Case>(values)...), shown(yours), shown(spec));
    return false;
  }

  /// @return main's exit code, which is 0 if all cases were equal
  int end() {
    --open_;
    if (!failed_) fmt::print("{}: right in all {} cases.\n", function_, cases_);
    return failed_ ? 1 : 0;
  }

 private:
  // Numbers are printed as they are. Other types use their own to_string(), which is found by the
  // argument.
  template <class T>
  static std::string shown(const T& value) {
    if constexpr (fmt::is_formattable<T>::value) {
      return fmt::format("{}", value);
    } else {
      return to_string(value);
    }
  }

  // A reader's exit(0) would look like a checker that has found no difference.
  static void refuse_an_early_exit() {
    if (open_ <= 0 || checking_ != getpid()) return;  // a rank may be a process, and may exit
    std::puts("Your code has ended the program before its checker did.");
    std::fflush(stdout);
    std::_Exit(1);
  }

  static inline pid_t checking_ = 0;  // the process of the checker
  static inline int open_ = 0;        // exercises that have not come to their end

  std::string function_;
  int cases_ = 0;
  bool failed_ = false;
};

}  // namespace lesson
