#include "data/tales.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nanofsdp::data {
namespace {

// These change ASCII letters only, under every locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// Removes from `text` the part before the first of the characters `ends`, and that character, and
// returns the part. (A stream would do the same, but it would bring all locales into the page that
// runs in a browser.)
std::string_view cut(std::string_view& text, const char* ends) {
  const std::string_view piece = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(std::min(piece.size() + 1, text.size()));
  return piece;
}

constexpr char kBlanks[] = " \t\r";

struct Rule {
  std::vector<std::string> texts{""};  // a deck of cards; the first `left` have not been dealt yet
  std::size_t left = 0;
};

class Teller {
 public:
  explicit Teller(std::string_view grammar) {
    for (std::string name; !grammar.empty();) {
      std::string_view line = cut(grammar, "\n");
      if (line.empty() || line.starts_with('#')) continue;
      if (line.find_first_not_of(kBlanks) == 0) name = cut(line, kBlanks);
      while (!line.empty()) append(rules_[name].texts, std::string(cut(line, kBlanks)));
    }
  }

  std::string tell() {
    for (auto& [name, rule] : rules_) rule.left = rule.texts.size();
    return expand("{story}");
  }

 private:
  static void append(std::vector<std::string>& texts, const std::string& word) {
    std::string& text = texts.back();
    if (word == "|") {
      texts.emplace_back();
    } else if (word == "/") {
      text += '\n';
    } else if (!word.empty() && word != "=") {
      text += (text.empty() || text.ends_with('\n') ? "" : " ") + word;
    }
  }

  // Draws a number from [0, n), n < 2^32, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014;
  // constants as published by S. Vigna).
  std::size_t below(std::size_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((((z ^ (z >> 31)) >> 32) * n) >> 32);
  }

  std::string deal(const std::string& name) {
    NANOFSDP_REFUSE_IF(!rules_.contains(name), .what = "data/tales.grammar",
                       .expected = "a rule named '" + name + "'", .got = "none");
    auto& [texts, left] = rules_[name];
    if (left == 0) left = texts.size();
    std::swap(texts[below(left)], texts[left - 1]);
    return texts[--left];
  }

  std::string expand(const std::string& text) {
    std::string out;
    std::size_t at = 0;
    for (std::size_t open; (open = text.find('{', at)) != text.npos;) {
      out.append(text, at, open - at);
      NANOFSDP_REFUSE_IF(text.find('}', open) == text.npos, .what = "data/tales.grammar",
                         .expected = "a } behind '" + text.substr(open) + "'", .got = "none");
      at = text.find('}', open) + 1;
      // The text between the braces is name, Name, "a name" or "A name".
      std::string name = text.substr(open + 1, at - open - 2), article;
      if (name.find(' ') == 1) article = std::exchange(name, name.substr(2))[0];
      const char first = std::exchange(name[0], lower(name[0]));
      std::string words = expand(deal(name));
      const bool vowel = std::string_view("aeiou").find(lower(words[0])) != std::string_view::npos;
      if (!article.empty()) out += article + (vowel ? "n " : " ");
      if (first != name[0]) words[0] = upper(words[0]);
      out += words;
    }
    return out.append(text, at);
  }

  std::map<std::string, Rule> rules_;  // rules by their names
  std::uint64_t state_ = 1337;         // state of the generator
};

}  // namespace

std::string expand_tales(std::string_view grammar, std::size_t bytes) {
  Teller teller(grammar);
  std::string text;
  while (text.size() < bytes) text += (text.empty() ? "" : "\n") + teller.tell() + "\n";
  return text;
}

}  // namespace nanofsdp::data
