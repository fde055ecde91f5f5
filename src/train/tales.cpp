#include "train/tales.h"

#include <cctype>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nanofsdp {
namespace {

constexpr std::string_view kSpace = " \t\r";
constexpr int kDeepest = 50;  // a rule nested deeper than this never ends

[[noreturn]] void fail(int line, std::string expected, std::string got, std::string hint) {
  throw UsageError({.what = "tales grammar, line " + std::to_string(line),
                    .expected = std::move(expected),
                    .got = std::move(got),
                    .hint = std::move(hint)});
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants as published by S. Vigna).
class SplitMix64 {
 public:
  // A number in [0, n), n < 2^32.
  std::size_t below(std::size_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<std::size_t>(((z >> 32) * n) >> 32);
  }

 private:
  std::uint64_t state_ = 1337;
};

struct Row {
  int line = 0;
  std::vector<std::string> columns{""};
};

struct Rule {
  bool per_story = false;  // defined by := rather than =
  std::vector<Row> rows;
  std::vector<std::size_t> deck;  // the rows; [0, left) are still to be dealt
  std::size_t left = 0;
};

// What a name stands for.
struct Slot {
  std::size_t rule = 0;
  std::size_t column = 0;
};

// What stands between two braces.
struct Reference {
  std::string name;
  char article = 0;  // 'a', 'A' or none
  bool capital = false;
};

Reference read_reference(std::string_view inside) {
  Reference ref;
  if (inside.starts_with("a ") || inside.starts_with("A ")) {
    ref.article = inside[0];
    inside.remove_prefix(2);
  }
  ref.name = inside;
  if (inside.empty()) return ref;
  ref.capital = inside[0] != lower(inside[0]);
  ref.name[0] = lower(inside[0]);
  return ref;
}

class Teller {
 public:
  explicit Teller(std::string_view grammar) {
    int line = 0;
    while (!grammar.empty()) {
      const std::size_t end = grammar.find('\n');
      read_line(grammar.substr(0, end), ++line);
      grammar.remove_prefix(end == std::string_view::npos ? grammar.size() : end + 1);
    }
    for (Rule& rule : rules_) {
      for (Row& row : rule.rows) check_row(row, widths_[&rule - rules_.data()]);
      for (std::size_t i = 0; i < rule.rows.size(); ++i) rule.deck.push_back(i);
    }
    if (!slots_.contains("story")) fail(line, "a rule named 'story'", "none", "add: story = ...");
  }

  std::string tell() {
    for (Rule& rule : rules_) {
      rule.left = rule.deck.size();
      if (rule.per_story) deal(rule);
    }
    std::string out;
    expand("{story}", out, 0);
    return out;
  }

 private:
  void read_line(std::string_view text, int line) {
    if (text.starts_with('#') || text.find_first_not_of(kSpace) == text.npos) return;
    if (kSpace.find(text[0]) == kSpace.npos) {
      const std::size_t equals = text.find('=');
      if (equals == text.npos || equals == 0)
        fail(line, "name = ...", std::string(text),
             "a line that continues a rule begins with a space");
      define(text.substr(0, equals), line);
      text.remove_prefix(equals + 1);
    }
    if (rules_.empty()) fail(line, "name = ...", std::string(text), "no rule to continue");
    std::vector<Row>& rows = rules_.back().rows;
    for (const char c : text) append(rows, c, line);
    append(rows, ' ', line);
  }

  void define(std::string_view head, int line) {
    Rule rule{.per_story = head.ends_with(':'), .rows = {{.line = line}}, .deck = {}};
    if (rule.per_story) head.remove_suffix(1);
    std::size_t columns = 0;
    for (;;) {
      head.remove_prefix(std::min(head.find_first_not_of(kSpace), head.size()));
      if (head.empty()) break;
      const std::size_t end = std::min(head.find_first_of(kSpace), head.size());
      const std::string name(head.substr(0, end));
      if (!slots_.try_emplace(name, Slot{rules_.size(), columns++}).second)
        fail(line, "each name once", "'" + name + "' again", "rename or merge the two rules");
      head.remove_prefix(end);
    }
    widths_.push_back(columns);
    rules_.push_back(std::move(rule));
  }

  static void append(std::vector<Row>& rows, char c, int line) {
    if (c == '|') {
      rows.push_back({.line = line});
      return;
    }
    // The row's text so far never ends in two spaces, or in one before a line break.
    std::string& text = rows.back().columns.back();
    const bool space = kSpace.find(c) != kSpace.npos;
    if (c == ';') {
      rows.back().columns.emplace_back();
    } else if (!space) {
      if (c == '/' && text.ends_with(' ')) text.pop_back();
      text += c == '/' ? '\n' : c;
    } else if (!text.empty() && text.back() != ' ' && text.back() != '\n') {
      text += ' ';
    }
  }

  void check_row(Row& row, std::size_t width) const {
    if (row.columns.size() != width)
      fail(row.line, std::to_string(width) + " columns", std::to_string(row.columns.size()),
           "';' separates columns, '|' alternatives");
    for (std::string& column : row.columns) {
      if (column.ends_with(' ')) column.pop_back();
      if (column.empty())
        fail(row.line, "some text", "an empty alternative", "is there a '|' too many?");
      check_braces(column, row.line);
    }
  }

  void check_braces(std::string_view text, int line) const {
    for (std::size_t at = text.find_first_of("{}"); at != text.npos;) {
      const std::size_t close = text.find_first_of("{}", at + 1);
      if (text[at] == '}' || close == text.npos || text[close] == '{')
        fail(line, "braces in pairs", "'" + std::string(text) + "'", "write {name}");
      const std::string name = read_reference(text.substr(at + 1, close - at - 1)).name;
      if (!slots_.contains(name))
        fail(line, "a rule named '" + name + "'", "none", "define it, or mend the spelling");
      at = text.find_first_of("{}", close + 1);
    }
  }

  const Row& deal(Rule& rule) {
    if (rule.left == 0) rule.left = rule.deck.size();
    std::swap(rule.deck[random_.below(rule.left)], rule.deck[rule.left - 1]);
    return rule.rows[rule.deck[--rule.left]];
  }

  void expand(std::string_view text, std::string& out, int depth) {
    for (;;) {
      const std::size_t open = text.find('{');
      out += text.substr(0, open);
      if (open == text.npos) return;
      const std::size_t close = text.find('}', open);
      const Reference ref = read_reference(text.substr(open + 1, close - open - 1));
      text.remove_prefix(close + 1);

      const Slot slot = slots_.at(ref.name);
      Rule& rule = rules_[slot.rule];
      // A row for the story was dealt at its start: it is the card last dealt.
      const Row& row = rule.per_story ? rule.rows[rule.deck[rule.left]] : deal(rule);
      if (depth > kDeepest)
        fail(row.line, "a rule that ends", "'" + ref.name + "' within itself", "break the circle");
      const std::size_t start = out.size();
      expand(row.columns[slot.column], out, depth + 1);
      if (ref.article != 0) {
        const bool vowel =
            std::string_view("aeiou").find(lower(out[start])) != std::string_view::npos;
        out.insert(start, vowel ? "an " : "a ");
      }
      // "a Hat" has its capital after the article, "A hat" on it.
      if (ref.article == 'A') out[start] = 'A';
      if (ref.capital) {
        const std::size_t at = ref.article == 0 ? start : out.find(' ', start) + 1;
        out[at] = upper(out[at]);
      }
    }
  }

  std::map<std::string, Slot, std::less<>> slots_;
  std::vector<Rule> rules_;
  std::vector<std::size_t> widths_;  // columns of each rule
  SplitMix64 random_;
};

}  // namespace

std::string expand_tales(std::string_view grammar, std::size_t bytes) {
  Teller teller(grammar);
  std::string text;
  while (text.size() < bytes) {
    if (!text.empty()) text += '\n';
    text += teller.tell() + '\n';
  }
  return text;
}

}  // namespace nanofsdp
