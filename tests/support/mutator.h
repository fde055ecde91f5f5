#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace nanofsdp::testing {

/// @file
/// @brief Random damage to texts, the same in every run.

/// NANOFSDP_FUZZ=100 multiplies the work of every fuzz test by 100.
inline int fuzz_rounds(int usual) {
  const char* factor = std::getenv("NANOFSDP_FUZZ");
  return usual * (factor != nullptr ? std::atoi(factor) : 1);
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  /// A number below `n`. It does not use a standard distribution, because those differ between
  /// libraries.
  std::size_t below(std::size_t n) { return random_() % n; }

  /// A random element of a list.
  template <class List>
  const auto& pick(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

  /// Returns `text` after one to four changes: it replaces a byte or a bit, removes, doubles or
  /// moves a piece, or puts in a number or a word that often causes errors. Some texts also get
  /// brackets in each other, up to 200,000, on which a recursive reader would run out of stack.
  std::string damage(std::string text) {
    if (below(50) == 0) {
      std::string brackets;
      const std::string bracket = pick(std::array<const char*, 3>{"[", "{\"a\":", "("});
      for (std::size_t depth = 1 + below(200'000); depth > 0; --depth) brackets += bracket;
      text.insert(below(text.size() + 1), brackets);
    }
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t at = below(text.size() + 1), length = 1 + below(1 + below(40));
      const std::string piece = text.substr(at, length);
      switch (below(6)) {
        case 0:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        case 1:
          if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 2:
          text.erase(at, length);
          break;
        case 3:
          text.insert(below(text.size() + 1), piece);
          break;
        case 4:
          text.insert(at, pick(kWords));
          break;
        default:
          text.replace(at, piece.size(), pick(kWords));
      }
    }
    return text;
  }

  static constexpr std::string_view kWords[] = {"",
                                                "0",
                                                "-1",
                                                "1",
                                                "2",
                                                "3",
                                                "1e999",
                                                "-1e9",
                                                "nan",
                                                "inf",
                                                "1.5",
                                                "9223372036854775807",
                                                "9223372036854775808",
                                                "18446744073709551616",
                                                "4294967296",
                                                "1000000",
                                                "0x10",
                                                "True",
                                                "False",
                                                "None",
                                                "null",
                                                "{}",
                                                "[]",
                                                "[",
                                                "{",
                                                "\"",
                                                "'",
                                                "\\",
                                                "\\n",
                                                "#",
                                                "=",
                                                "--",
                                                "-",
                                                "\n",
                                                "\r\n",
                                                " ",
                                                "\t",
                                                "x",
                                                "\xff",
                                                "\xc3\xa9",
                                                "\xef\xbb\xbf",
                                                "\x1b[2J",
                                                "../",
                                                "/"};

 private:
  std::mt19937_64 random_;
};

}  // namespace nanofsdp::testing
