#include "data/tales.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nanofsdp::data {
namespace {

constexpr int kDeepest = 50;  // a rule nested deeper than this never ends

// ASCII only, whatever the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
bool space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

[[noreturn]] void fail(int line, const std::string& expected, const std::string& got) {
  NANOFSDP_REFUSE(.what = "tales grammar, line " + std::to_string(line), .expected = expected,
                  .got = got, .hint = "the notation is explained in data/tales.grammar");
}

struct Row {
  int line = 0;
  std::string text;
};

struct Rule {
  std::vector<Row> rows;  // a deck of cards: the first `left` are still to be dealt
  std::size_t left = 0;
};

// What stands between two braces: {name}, {Name}, {a name} or {A name}.
struct Reference {
  explicit Reference(std::string_view inside)
      : article(inside.starts_with("a ") || inside.starts_with("A ") ? inside[0] : '\0'),
        name(inside.substr(article != '\0' ? 2 : 0)),
        capital(!name.empty() && name[0] != lower(name[0])) {
    if (capital) name[0] = lower(name[0]);
  }

  char article;
  std::string name;
  bool capital;
};

class Teller {
 public:
  explicit Teller(std::string_view grammar) {
    int number = 0;
    while (!grammar.empty()) {
      const std::string_view line = grammar.substr(0, grammar.find('\n'));
      read(line, ++number);
      grammar.remove_prefix(std::min(line.size() + 1, grammar.size()));
    }
    for (Rule& rule : rules_)
      for (Row& row : rule.rows) check(row);
    if (!names_.contains("story")) fail(number, "a rule named 'story'", "none");
  }

  std::string tell() {
    for (Rule& rule : rules_) rule.left = rule.rows.size();
    std::string out;
    expand("{story}", out, 0);
    return out;
  }

 private:
  void read(std::string_view text, int line) {
    while (!text.empty() && space(text.back())) text.remove_suffix(1);
    if (text.empty() || text[0] == '#') return;
    if (!space(text[0])) {
      const std::size_t equals = text.find('=');
      if (equals == text.npos) fail(line, "name = ...", "'" + std::string(text) + "'");
      define(std::string(text.substr(0, equals)), line);
      text.remove_prefix(equals + 1);
    }
    if (rules_.empty()) fail(line, "name = ...", "a line that continues no rule");
    for (const char c : text) append(rules_.back().rows, c, line);
    append(rules_.back().rows, ' ', line);
  }

  void define(std::string name, int line) {
    while (!name.empty() && space(name.back())) name.pop_back();
    if (name.empty() || std::ranges::any_of(name, space))
      fail(line, "name = ...", "'" + name + " ='");
    if (!names_.try_emplace(name, rules_.size()).second)
      fail(line, "a new name", "'" + name + "' again");
    rules_.push_back({.rows = {{line, ""}}});
  }

  static void append(std::vector<Row>& rows, char c, int line) {
    std::string& text = rows.back().text;
    if (space(c)) {
      if (!text.empty() && text.back() != ' ' && text.back() != '\n') text += ' ';
      return;
    }
    if (text.ends_with(' ') && (c == '|' || c == '/')) text.pop_back();
    if (c == '|')
      rows.push_back({line, ""});
    else
      text += c == '/' ? '\n' : c;
  }

  void check(Row& row) const {
    std::string& text = row.text;
    if (text.ends_with(' ')) text.pop_back();
    if (text.empty()) fail(row.line, "some text", "an empty alternative");
    for (std::size_t open = text.find_first_of("{}"); open != text.npos;) {
      const std::size_t close = text.find_first_of("{}", open + 1);
      if (text[open] == '}' || close == text.npos || text[close] == '{')
        fail(row.line, "braces in pairs", "'" + text + "'");
      const Reference ref({text.data() + open + 1, close - open - 1});
      if (!names_.contains(ref.name)) fail(row.line, "a rule named '" + ref.name + "'", "none");
      open = text.find_first_of("{}", close + 1);
    }
  }

  // A number in [0, n), n < 2^32, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants as
  // published by S. Vigna).
  std::size_t below(std::size_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((((z ^ (z >> 31)) >> 32) * n) >> 32);
  }

  Row deal(Rule& rule) {
    if (rule.left == 0) rule.left = rule.rows.size();
    std::swap(rule.rows[below(rule.left)], rule.rows[rule.left - 1]);
    return rule.rows[--rule.left];
  }

  void expand(const std::string& text, std::string& out, int depth) {
    std::size_t at = 0;
    for (std::size_t open; (open = text.find('{', at)) != text.npos;) {
      out.append(text, at, open - at);
      at = text.find('}', open) + 1;
      const Reference ref({text.data() + open + 1, at - open - 2});
      const Row row = deal(rules_[names_.at(ref.name)]);
      if (depth > kDeepest) fail(row.line, "a rule that ends", "'" + ref.name + "' within itself");

      std::string words;
      expand(row.text, words, depth + 1);
      const bool vowel = std::string_view("aeiou").find(lower(words[0])) != std::string_view::npos;
      if (ref.capital) words[0] = upper(words[0]);
      if (ref.article != '\0') (out += ref.article) += vowel ? "n " : " ";
      out += words;
    }
    out.append(text, at);
  }

  std::map<std::string, std::size_t> names_;  // of the rules
  std::vector<Rule> rules_;
  std::uint64_t state_ = 1337;  // of the generator
};

}  // namespace

std::string expand_tales(std::string_view grammar, std::size_t bytes) {
  Teller teller(grammar);
  std::string text;
  while (text.size() < bytes) text += (text.empty() ? "" : "\n") + teller.tell() + "\n";
  return text;
}

}  // namespace nanofsdp::data
