#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace nanofsdp {

// The names and texts of data/configs/*.py, which src/cmake/embed.cmake puts into the binary.
// nanogpt.py has the settings that the others leave out.
extern const std::span<const std::pair<std::string_view, std::string_view>> kConfigs;
extern const std::string_view kNanoGpt;

namespace cli {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;
// Longest line, because the recursion of the regex has a limit.
constexpr std::size_t kLongest = 1000;

// The value of an expression.
struct Value {
  std::string text;                // the option's value: a string has no quotes here
  std::optional<double> number{};  // strings, True and False have none
  bool is_string = false;
};

// Reads assignments line by line, and each expression from left to right. There is a function for
// each level at which operators bind.
class Reader {
 public:
  Config config{};

  void read(std::string_view text, const std::string& path) {
    static const std::regex import(R"((import|from)\s.*)"),
        assignment(R"(([A-Za-z_]\w*)\s*=(?!=)\s*(.*))");
    std::istringstream lines{std::string(text)};
    lines.exceptions(std::ios::badbit);  // otherwise a std::bad_alloc would pass for the last line
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number) {
      line.erase(line.find_last_not_of(" \t\r") + 1);
      line.erase(0, line.find_first_not_of(" \t"));
      if (line.empty() || line[0] == '#') continue;
      fault_ = {.what = fmt::format("{}:{}", path, number), .got = "'" + line + "'"};
      std::smatch match;
      const bool odd = line.size() > kLongest || line.find('\0') != line.npos;
      const bool passed_over = !odd && std::regex_match(line, import);
      config.imports |= passed_over;
      if (passed_over) continue;
      if (odd || !std::regex_match(line, match, assignment)) refuse("name = value");
      const Value value = evaluate(match.str(2));
      values_[match[1]] = value;
      config.settings.push_back({match[1], value.text, number});
    }
  }

 private:
  Value evaluate(const std::string& expression) {
    fault_.got = "'" + expression + "'";
    rest_ = expression;
    Value value = sum();
    if (take({"#"}).empty() && !rest_.empty()) refuse("one value and no more");
    return value;
  }

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

  Value sum() { return chain({"+", "-"}, &Reader::product); }
  Value product() { return chain({"//", "*", "/", "%"}, &Reader::power); }

  // Operands with any of these signs between them. Python computes them from left to right.
  Value chain(std::initializer_list<std::string_view> signs, Value (Reader::*operand)()) {
    Value left = (this->*operand)();
    for (std::string_view sign; !(sign = take(signs)).empty();)
      left = combine(left, sign, (this->*operand)());
    return left;
  }

  // Python computes the power in -2 ** 2 first.
  Value power() {
    if (const std::string_view sign = take({"+", "-"}); !sign.empty())
      return combine(of(0), sign, power());
    const Value left = operand();
    return take({"**"}).empty() ? left : combine(left, "**", power());
  }

  Value operand() {
    static const std::regex quoted(R"('(\\.|[^'\\])*'|"(\\.|[^"\\])*")"),
        digits(R"((\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?)"), word(R"([A-Za-z_]\w*)");
    using Clock = std::chrono::system_clock;
    const std::string_view call = take({"(", "str(", "int(", "time.time()"});
    if (call == "time.time()")
      return of(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    if (!call.empty()) {
      const Value inner = sum();
      if (take({")"}).empty()) refuse("a closing parenthesis");
      if (call == "str(") return {as_python_prints(inner), {}, true};
      return call == "(" ? inner : of(std::trunc(number(inner)));
    }
    if (const std::string string = take(quoted); !string.empty())
      return {unquoted(string), {}, true};
    std::string typed = take(digits);
    std::erase(typed, '_');
    if (!typed.empty()) return {typed, of(std::strtod(typed.c_str(), nullptr)).number};
    const std::string name = take(word);
    if (name == "True" || name == "False") return {name};
    const auto found = values_.find(name);
    if (found == values_.end())
      refuse("a number, a bool, a quoted string, a name from above, str(x), int(x) or time.time()");
    config.helpers.insert(name);
    return found->second;
  }

  Value combine(const Value& left, std::string_view sign, const Value& right) {
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

  double number(const Value& value) {
    if (!value.number) refuse("a number, not '" + value.text + "'");
    return *value.number;
  }

  // Integers are printed as they are typed, floats in the shortest form that means them.
  static std::string as_python_prints(const Value& value) {
    if (!value.number || value.text.find_first_of(".eE") == value.text.npos) return value.text;
    const std::string shortest = fmt::format("{}", *value.number);
    return shortest.find_first_of(".e") == shortest.npos ? shortest + ".0" : shortest;
  }

  Value of(double number) {
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

  std::map<std::string, Value> values_{};  // values of the names that were assigned so far
  std::string_view rest_{};                // the part of an expression that is not read yet
  Fault fault_{};                          // says where the line stands
};

}  // namespace

Config parse_config(std::string_view text, const std::string& path) {
  Reader reader;
  reader.read(kNanoGpt, "nanogpt.py");
  for (Setting& setting : reader.config.settings) setting.line = 0;
  // An editor of Windows begins a file with these bytes.
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  reader.read(text, path);
  return reader.config;
}

Config read_config(const std::string& path) {
  std::error_code none;
  std::string named = path.starts_with("config/") ? path.substr(7) : path;
  if (named.ends_with(".py")) named.resize(named.size() - 3);
  std::string names;
  for (const auto& [name, text] : kConfigs) {
    if (named == name && !std::filesystem::exists(path, none)) return parse_config(text, path);
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
