#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace nanofsdp {

/// @file
/// @brief Errors that say what, where, expected, got, and what to do.
///
///     NANOFSDP_CHECK(x.numel() == n, .what = "matmul: operand x", .expected = fmt::format(...),
///                    .got = ..., .hint = "...");
///
/// A failed check throws; nothing below main() ends the process. The checks are macros, because GCC
/// 11 and Clang 14 must compile them (std::source_location is missing from one of the two).

/// The parts of an error message. Empty parts are left out.
struct Fault {
  std::string what{};      ///< names the wrong thing
  std::string expected{};  ///< the value that is right
  std::string got{};       ///< the value that is there
  std::string hint{};      ///< advice for the reader of the message
};

/// A broken contract inside the program: the message ends with file and line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An operand whose shape, dtype or device does not fit.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A wrong option, file or environment variable, which the user can correct. The program ends with
/// exit code 2, and the message names no file and line of the source. The message is always one
/// line: long parts of the user's text are cut, and characters that move the cursor are shown as
/// `\n` or `\x1b`.
class UsageError : public std::runtime_error {
 public:
  /// The message is describe(fault).
  explicit UsageError(const Fault& fault);
};

/// A run that cannot go on. Every rank finds the same error at the same time. The program ends with
/// exit code 1, and the message names no rank and no file and line.
class RunError : public std::runtime_error {
 public:
  /// The message is describe(fault).
  explicit RunError(const Fault& fault);
};

/// The text of an exception, for people. std::bad_alloc has none of its own.
std::string words_of(const std::exception& error);

/// Returns the result of `work`. An object that `work` throws leaves as a std::exception with a
/// text for people. So do std::bad_alloc, which has no such text, and objects of any other type.
int with_named_errors(const std::function<int()>& work);

/// One line: `what: expected E, got G; hint`.
std::string describe(const Fault& fault);

/// `describe(fault)` with its place in the source.
std::string describe(const Fault& fault, const char* file, int line);

}  // namespace nanofsdp

/// Throws `type` with the fault's text unless `condition` holds.
#define NANOFSDP_CHECK_AS(type, condition, ...)                                             \
  do {                                                                                      \
    if (!(condition))                                                                       \
      throw type(::nanofsdp::describe(::nanofsdp::Fault{__VA_ARGS__}, __FILE__, __LINE__)); \
  } while (false)

/// Throws UsageError; the arguments are the designated fields of Fault.
#define NANOFSDP_REFUSE(...) throw ::nanofsdp::UsageError(::nanofsdp::Fault{__VA_ARGS__})

/// Throws UsageError if `condition` holds; the rest are the designated fields of Fault.
#define NANOFSDP_REFUSE_IF(condition, ...)       \
  do {                                           \
    if (condition) NANOFSDP_REFUSE(__VA_ARGS__); \
  } while (false)

/// Throws Error unless `condition` holds; the rest are the designated fields of Fault.
#define NANOFSDP_CHECK(condition, ...) NANOFSDP_CHECK_AS(::nanofsdp::Error, condition, __VA_ARGS__)

/// Throws ShapeError unless `condition` holds.
#define NANOFSDP_CHECK_SHAPE(condition, ...) \
  NANOFSDP_CHECK_AS(::nanofsdp::ShapeError, condition, __VA_ARGS__)
