#pragma once

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::lessons {

/// @file
/// @brief Computes the formulas of `<!-- numbers: 112 = 16 * 7 -->`, and finds the numbers in a
/// text.

/// Evaluates + - * / ^, parentheses, ln(x), ceil(x), floor(x) and decimal numbers.
/// @throws std::invalid_argument if the text is not a formula
class Formula {
 public:
  explicit Formula(std::string_view text) : rest_(text) {}

  double value() {
    const double x = sum();
    if (!peek().empty()) fail();
    return x;
  }

 private:
  std::string_view peek() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) {
      rest_.remove_prefix(1);
    }
    return rest_;
  }
  bool take(std::string_view token) {
    if (!peek().starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  [[noreturn]] void fail() {
    throw std::invalid_argument("no formula: '" + std::string(rest_) + "'");
  }

  double sum() {
    double x = product();
    while (true) {
      if (take("+")) {
        x += product();
      } else if (take("-")) {
        x -= product();
      } else {
        return x;
      }
    }
  }
  double product() {
    double x = power();
    while (true) {
      if (take("*")) {
        x *= power();
      } else if (take("/")) {
        x /= power();
      } else {
        return x;
      }
    }
  }
  double power() {
    const double x = atom();
    return take("^") ? std::pow(x, power()) : x;
  }
  double atom() {
    if (take("-")) return -atom();
    if (take("ln")) return std::log(atom());
    if (take("ceil")) return std::ceil(atom());
    if (take("floor")) return std::floor(atom());
    if (take("(")) {
      const double x = sum();
      if (!take(")")) fail();
      return x;
    }
    const std::string text(peek());
    char* end = nullptr;
    const double x = std::strtod(text.c_str(), &end);
    if (end == text.c_str()) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - text.c_str()));
    return x;
  }

  std::string_view rest_;
};

/// Turns "1,234.5" into "1234.5".
inline std::string without_commas(const std::string& number) {
  std::string digits;
  for (const char c : number) {
    if (c != ',') digits += c;
  }
  return digits;
}

/// Empty if the number equals its formula, rounded to the digits that it shows. Digits may be in
/// groups of three on both sides: "3,216,384 = 12,865,536 / 4".
inline std::string complaint(const std::string& equation) {
  const std::size_t equals = equation.find('=');
  if (equals == equation.npos) return "'" + equation + "' is no equation";
  const std::string left = without_commas(equation.substr(0, equals));
  const std::string right = without_commas(equation.substr(equals + 1));
  const std::size_t point = left.find('.');
  int decimals = 0;
  for (std::size_t i = point; i != left.npos && ++i < left.size() && std::isdigit(left[i]);) {
    ++decimals;
  }
  const double difference = Formula(left).value() - Formula(right).value();
  const bool close = std::abs(difference) <=
                     0.5 * std::pow(10.0, -decimals) * (1 + 1e-9) * (decimals == 0 ? 1e-6 : 1.0);
  return close ? "" : "'" + equation + "' is wrong by " + std::to_string(difference);
}

/// The numbers of a text from ten on, as they are written, except those that name a lesson, a
/// section or a paper.
inline std::vector<std::string> numerals(const std::string& prose) {
  static const std::regex pattern(
      "([Ll]essons? |[Ss]ections? |arXiv |[Pp]art |# |: "
      "\\[)?((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\\.[0-9]+)*)");
  std::vector<std::string> found;
  for (std::sregex_iterator m(prose.begin(), prose.end(), pattern), end; m != end; ++m) {
    if ((*m)[1].matched) continue;
    const auto at = static_cast<std::size_t>(m->position(2));
    // A part of a name.
    if (at > 0 && (std::isalpha(prose[at - 1]) || prose[at - 1] == '_')) continue;
    const std::string number = (*m)[2];
    if (std::atof(without_commas(number).c_str()) >= 10) found.push_back(number);
  }
  return found;
}

/// Whether the text has the number, and not only as a part of a longer one. Commas do not count.
inline bool holds_number(const std::string& text, const std::string& number) {
  static const std::regex pattern("(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\\.[0-9]+)?");
  for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m) {
    if (without_commas(m->str()) == without_commas(number)) return true;
  }
  return false;
}

}  // namespace nanofsdp::lessons
