#include <gtest/gtest.h>

#include <set>

#include "house/source_tree.h"

// Tests that everything exists which a page tells the reader to type: targets and variables of
// make, subcommands and options of nanofsdp.

namespace house {
namespace {

using Names = std::set<std::string>;
using Match = std::sregex_iterator;

/// The texts that the group of `pattern` matches.
Names all(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  Names found;
  for (Match m(text.begin(), text.end(), regex), end; m != end; ++m) {
    found.insert((*m)[1].matched ? (*m)[1] : (*m)[2]);
  }
  return found;
}

/// The names that may be typed.
struct Known {
  Names targets, variables, subcommands, options;
};

Known read_known() {
  const std::string makefile = read("Makefile");
  std::string scripts, sources;  // scripts of make get its variables by the environment
  for (const std::string& file : all(makefile, R"(((?:lessons|tests|src)/[\w/]+\.sh))")) {
    scripts += read(file);
  }
  for (const auto& file : files("src", {".h", ".cpp"})) sources += read(file);
  return {all(makefile, R"(^([a-z0-9-]+):.*## )"),
          all(makefile + scripts, R"(\$[({]?(?:origin )?([A-Z][A-Z_]*))"),
          all(read("src/cli/commands.cpp"), R"re(\{"([a-z]+)", [a-z<]+_)re"),
          all(sources + "add(\"help\" add(\"config\"",
              R"re(\b(?:add|choose|add_dtype)\((?:line, )?"(\w+)"|\{"(\w+)", \{")re")};
}

/// The parts of a page that are typed as they stand: code spans, and the lines of shell blocks
/// without comments and with continued lines joined.
std::vector<std::string> typed(const std::string& page) {
  std::vector<std::string> pieces;
  std::string fence, prose;
  for (const std::string& line : lines(page)) {
    if (line.starts_with("```")) {
      fence = fence.empty() ? line : "";
    } else if (fence.empty()) {
      prose += line + "\n";
    } else if (fence == "```sh") {
      if (pieces.empty() || !pieces.back().ends_with('\\')) pieces.emplace_back("\\");
      pieces.back().back() = ' ';
      pieces.back() += line.substr(0, line.find(" #"));
    }
  }
  for (const std::string& span : all(prose, "`([^`\n]+)`")) pieces.push_back(span);
  return pieces;
}

/// The names in `text` that do not exist, and the kind of each.
Names wrong(const std::string& text) {
  static const Known known = read_known();
  Names result;
  const auto check = [&](const Names& names, const Names& among, const std::string& kind) {
    for (const std::string& name : names) {
      if (!among.contains(name)) result.insert(kind + " " + name);
    }
  };
  // Options with a hyphen inside are those of other programs, such as torchrun.
  const auto check_options = [&](const std::string& words) {
    check(all(words, R"(--(\w+)(?![\w-]))"), known.options, "option");
  };
  static const std::regex make(R"((?:^|[;&|]) *(?:\w+=\S+ +)*make( [^;&|]*))");
  for (Match m(text.begin(), text.end(), make), end; m != end; ++m) {
    const std::string rest = std::regex_replace((*m)[1].str(), std::regex("\"[^\"]*\""), "...");
    check(all(rest, R"(^(?: +[A-Z_]+=\S+)* +([a-z][\w-]*))"), known.targets, "target");
    check(all(rest, " ([A-Z][A-Z_]*)="), known.variables, "variable");
    if (rest.starts_with(" train")) check_options((*m)[1]);
  }
  static const std::regex nanofsdp(R"((?:^|[ "'/])nanofsdp +([a-z]\w*)([^;&|]*))");
  for (Match m(text.begin(), text.end(), nanofsdp), end; m != end; ++m) {
    check({(*m)[1]}, known.subcommands, "subcommand");
    check_options((*m)[2]);
  }
  if (text.starts_with("--")) check_options(text);
  return result;
}

Names wrong_on(const std::string& page) {
  Names result;
  for (const std::string& piece : typed(page)) result.merge(wrong(piece));
  return result;
}

TEST(Commands, ThatDoNotExistAreSeen) {
  EXPECT_EQ(wrong_on("`make tea`, `make test MILK=1`, `nanofsdp brew`, `--sugar=2`\n"
                     "```sh\nmake train ARGS=\"--cups=1\"  # make coffee\n"
                     "x --y build/release/nanofsdp train --ranks=2 \\\n  --honey\n```\n"),
            (Names{"target tea", "variable MILK", "subcommand brew", "option sugar", "option cups",
                   "option honey"}));
}

TEST(Commands, OfEveryPageExist) {
  EXPECT_EQ(wrong_on(read("README.md")), Names{});
  for (const char* folder : {"lessons", "tests", "data"}) {
    for (const auto& page : files(folder, {".md"})) {
      EXPECT_EQ(wrong_on(read(page)), Names{}) << page;
    }
  }
}

TEST(Commands, OfMakesHelpExist) {
  for (const std::string& text : all(read("Makefile"), R"(^[a-z-]+:.*## (.*)$)")) {
    EXPECT_EQ(wrong(text.substr(std::min(text.find("make "), text.size()))), Names{}) << text;
  }
}

// The menu is short; `make help-all` has all targets.
TEST(Menu, HasTwelveLinesForEverybody) {
  const std::string makefile = read("Makefile");
  EXPECT_EQ(all(makefile, R"(^([a-z0-9-]+):.*## [A-Z])").size(), 12u);
  EXPECT_EQ(all(makefile, R"(^([a-z0-9-]+):.*## (?:\+ )?[A-Z])"), read_known().targets);
}

}  // namespace
}  // namespace house
