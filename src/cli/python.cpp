#include "cli/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <regex>
#include <utility>

#include "base/json.h"

namespace nanofsdp::cli {
namespace {

// Reads an expression from left to right, a function for each level at which operators bind.
class Expression {
 public:
  Expression(std::string_view text, PythonNames& names, Fault fault)
      : rest_(text), names_(names), fault_(std::move(fault)) {
    fault_.got = fmt::format("'{}'", text);
  }

  PythonValue whole() {
    PythonValue value = sum();
    if (take({"#"}).empty() && !rest_.empty()) refuse("one value and no more");
    return value;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) {
    fault_.expected = expected;
    throw UsageError(fault_);
  }

  // Removes and returns the symbol that comes next, after blanks; empty if there is none.
  std::string_view take(std::initializer_list<std::string_view> symbols) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    for (const std::string_view symbol : symbols) {
      if (!rest_.starts_with(symbol)) continue;
      rest_.remove_prefix(symbol.size());
      return symbol;
    }
    return "";
  }

  // Removes and returns the text that the pattern matches here; empty if it matches none.
  std::string take(const std::regex& pattern) {
    std::cmatch match;
    const char *const begin = rest_.data(), *const end = begin + rest_.size();
    std::regex_search(begin, end, match, pattern, std::regex_constants::match_continuous);
    rest_.remove_prefix(static_cast<std::size_t>(match.length()));
    return match.str();
  }

  PythonValue sum() { return chain({"+", "-"}, &Expression::product); }
  PythonValue product() { return chain({"//", "*", "/", "%"}, &Expression::power); }

  // Operands with any of these signs between them. Python computes them from left to right.
  PythonValue chain(std::initializer_list<std::string_view> signs,
                    PythonValue (Expression::*operand)()) {
    PythonValue left = (this->*operand)();
    for (std::string_view sign; !(sign = take(signs)).empty();)
      left = combine(left, sign, (this->*operand)());
    return left;
  }

  // Python computes the power in -2 ** 2 first.
  PythonValue power() {
    if (const std::string_view sign = take({"+", "-"}); !sign.empty())
      return combine(of(0), sign, power());
    const PythonValue left = operand();
    return take({"**"}).empty() ? left : combine(left, "**", power());
  }

  PythonValue operand() {
    static const std::regex quoted(R"('(\\.|[^'\\])*'|"(\\.|[^"\\])*")"),
        digits(R"((\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?)"), word(R"([A-Za-z_]\w*)");
    using Clock = std::chrono::system_clock;
    const std::string_view call = take({"(", "str(", "int(", "time.time()"});
    if (call == "time.time()")
      return of(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    if (!call.empty()) {
      const PythonValue inner = sum();
      if (take({")"}).empty()) refuse("a closing parenthesis");
      if (call == "str(") return {inner.text, {}, true};
      return call == "(" ? inner : of(std::trunc(number(inner)));
    }
    if (const std::string string = take(quoted); !string.empty())
      return {unquoted(string), {}, true};
    std::string typed = take(digits);
    std::erase(typed, '_');
    if (!typed.empty()) return {typed, of(std::strtod(typed.c_str(), nullptr)).number};
    const std::string name = take(word);
    if (name == "True" || name == "False") return {name};
    const auto found = names_.values.find(name);
    if (found == names_.values.end())
      refuse("a number, a bool, a quoted string, a name from above, str(x), int(x) or time.time()");
    names_.read.insert(name);
    return found->second;
  }

  PythonValue combine(const PythonValue& left, std::string_view sign, const PythonValue& right) {
    if (sign == "+" && left.is_string && right.is_string) return {left.text + right.text, {}, true};
    const double a = number(left), b = number(right);
    if (sign == "+") return of(a + b);
    if (sign == "-") return of(a - b);
    if (sign == "*") return of(a * b);
    if (sign == "**") return of(std::pow(a, b));
    if (b == 0) refuse("a divisor other than 0");
    if (sign == "/") return of(a / b);
    const double floor = std::floor(a / b);
    return of(sign == "//" ? floor : a - floor * b);
  }

  double number(const PythonValue& value) {
    if (!value.number) refuse("a number, not '" + value.text + "'");
    return *value.number;
  }

  PythonValue of(double number) {
    if (!std::isfinite(number)) refuse("a finite number");
    const bool whole = number == std::floor(number) && std::abs(number) < 0x1p53;
    return {whole ? fmt::format("{:.0f}", number) : fmt::format("{}", number), number};
  }

  // Python's escapes are those of JSON, which has no \' and wants one before each quotation mark.
  std::string unquoted(const std::string& quoted) {
    std::string json = "\"";
    for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
      const bool escapes = quoted[i] == '\\';
      if (quoted[i] == '"' || (escapes && quoted[i + 1] != '\'')) json += '\\';
      json += quoted[i += escapes];
    }
    fault_.expected = "escapes in strings to be \\n, \\t, \\\\, \\', \\\" or \\u and four digits";
    return parse_json(json + '"', fault_);
  }

  std::string_view rest_;
  PythonNames& names_;
  Fault fault_;
};

}  // namespace

PythonValue evaluate_python(std::string_view text, PythonNames& names, const Fault& fault) {
  return Expression(text, names, fault).whole();
}

}  // namespace nanofsdp::cli
