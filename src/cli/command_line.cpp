#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "cli/config_file.h"
#include "cli/option_kinds.h"
#include "plan/transformer.h"

namespace nanofsdp {

// The names and texts of data/help/*.txt, which src/cmake/embed.cmake puts into the binary.
extern const std::span<const std::pair<std::string_view, std::string_view>> kUsages;

namespace cli {
namespace {

// The text of data/help/NAME.txt.
std::string_view text_of(std::string_view file) {
  const auto found = std::ranges::find(kUsages, file, [](const auto& row) { return row.first; });
  return found == kUsages.end() ? "" : found->second;
}

/// Whether a word is one of several, which have blanks or line ends between them.
bool contains(const std::string& words, const std::string& word) {
  return std::ranges::count(plan::words_in(words), word) > 0;
}

/// The number of letters that only one of two names has. A wrong letter counts twice, because each
/// name has one that the other lacks.
int unlike_letters(std::string_view a, std::string_view b) {
  std::array<int, 256> more{};  // how many more of each letter `a` has
  for (const unsigned char letter : a) ++more[letter];
  for (const unsigned char letter : b) --more[letter];
  return std::accumulate(more.begin(), more.end(), 0, [](int s, int n) { return s + std::abs(n); });
}

}  // namespace

CommandLine::CommandLine(std::string command, std::string refused)
    : command_(std::move(command)), usage_(text_of(command_)), refused_(std::move(refused)) {
  const std::size_t end = std::min(usage_.find("\n# "), usage_.size());
  common_ = usage_.substr(end);
  usage_.resize(end);
}

void CommandLine::add(const std::string& name, std::string shown_default, Setter setter) {
  options_.try_emplace(name, Option{std::move(shown_default), std::move(setter)});
}

void CommandLine::add(const std::string& name, std::string& target) {
  // A newline is shown, and may be typed, as it is written in a string.
  add(name, target == "\n" ? "\\n" : target,
      [&target](const std::string& value) { target = value == "\\n" ? "\n" : value; });
}

void CommandLine::add(const std::string& name, bool& target) {
  add(name, target ? "True" : "False", [name, &target](const std::string& value) {
    target = value == "True" || value == "true" || value == "1";
    require(target || value == "False" || value == "false" || value == "0", name, "True or False",
            "'" + value + "'");
  });
}

template <class Number>
void CommandLine::add(const std::string& name, Number& target, const Range& range) {
  add(name, fmt::format("{}", target), [name, range, &target](const std::string& value) {
    Number number{};
    const char *const begin = value.c_str(), *const end = begin + value.size(), *rest = begin;
    if constexpr (std::is_integral_v<Number>) {
      const auto read = std::from_chars(begin, end, number);
      const bool too_large = read.ec == std::errc::result_out_of_range && *begin != '-';
      require(!too_large || read.ptr != end, name, "a smaller number", "'" + value + "'");
      rest = read.ptr;
    } else if (value.find_first_not_of("+-.0123456789eE") == value.npos) {
      number = static_cast<Number>(std::strtod(begin, const_cast<char**>(&rest)));
    }
    const bool whole = rest == end && !value.empty();
    const auto size = static_cast<double>(number);
    const char* const kind = std::is_integral_v<Number> ? "an integer" : "a number";
    require(whole && std::isfinite(size), name, kind, "'" + value + "'");
    require(size >= range.least && size < range.end, name, range.words, "'" + value + "'");
    target = number;
  });
}

template void CommandLine::add(const std::string&, int&, const Range&);
template void CommandLine::add(const std::string&, std::int64_t&, const Range&);
template void CommandLine::add(const std::string&, double&, const Range&);

void CommandLine::choose(const std::string& name, const std::vector<std::string>& words,
                         Setter setter, const std::string& usual) {
  add(name, usual.empty() ? words.front() : usual, [=](const std::string& value) {
    require(std::ranges::count(words, value) > 0, name, fmt::format("{}", fmt::join(words, " or ")),
            "'" + value + "'");
    setter(value);
  });
}

void CommandLine::note_idle(std::vector<std::string>& notes,
                            std::initializer_list<std::pair<bool, const char*>> reasons) const {
  std::vector<std::string> idle;  // "reason: options", for each reason that holds
  for (const auto& [holds, name] : reasons)
    if (holds) idle.push_back(words_of("idle", name));
  for (const auto& [name, option] : options_) {
    const auto found = std::ranges::find_if(idle, [&, name = name](const std::string& words) {
      return contains(words.substr(words.find(':') + 1), name);
    });
    if (option.place != "" || found == idle.end()) continue;
    note(notes, name, option.value, found->substr(0, found->find(':')));
  }
}

std::map<std::string, std::string> CommandLine::settings(
    const std::vector<std::string>& leave_out) const {
  std::map<std::string, std::string> all;
  for (const auto& [name, option] : options_) all[name] = option.value;
  for (const std::string& name : leave_out) all.erase(name);
  return all;
}

std::string CommandLine::words_of(const char* file, const std::string& name) const {
  const std::string_view text = text_of(file);
  for (const std::string& key : {"\n" + command_ + "." + name + " ", "\n" + name + " "}) {
    const std::size_t at = text.find(key), begin = text.find_first_not_of(' ', at + key.size());
    if (at != text.npos) return std::string(text.substr(begin, text.find('\n', begin) - begin));
  }
  return "";
}

std::string CommandLine::help(bool all) const {
  all = all || common_.empty();
  std::string text = usage_, heading;
  for (std::string_view rest = text_of("options"); !rest.empty();) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("## ")) heading = "\n" + line.substr(3) + "\n";
    std::string name = line.substr(0, line.find(' '));
    const std::string words = line.substr(std::min(name.size() + 2, line.size()));
    if (name.starts_with(command_ + ".")) name.erase(0, command_.size() + 1);
    if (!options_.contains(name) || contains(refused_, name) || (!all && !contains(common_, name)))
      continue;
    if (words != words_of("options", name)) continue;  // this command has other words for it
    text +=
        std::exchange(heading, "") +
        fmt::format("  {:<33} {}\n", fmt::format("--{}={}", name, options_.at(name).value), words);
  }
  return all ? text : text + "\nMost runs need no others. --help=all lists all options.\n";
}

CommandLine::Option& CommandLine::find(const std::string& name, const std::string& place) {
  if (const auto found = options_.find(name); found != options_.end()) return found->second;
  const auto distance = [&](const auto& other) { return unlike_letters(name, other.first); };
  const auto nearest = std::ranges::min_element(options_, {}, distance);
  const bool similar = distance(*nearest) <= std::max(2, static_cast<int>(name.size() / 3));
  NANOFSDP_REFUSE(.what = place + "unknown option --" + name,
                  .hint =
                      similar ? "did you mean --" + nearest->first + "?" : "--help=all lists them");
}

void CommandLine::apply(const Option& option) try {
  option.setter(option.value);
} catch (const UsageError& error) {
  NANOFSDP_REFUSE(.what = *option.place + error.what());
}

void CommandLine::set(const std::string& name, const std::string& value, const std::string& place) {
  Option& option = find(name, place);
  option.value = value, option.place = place;
  apply(option);
}

void CommandLine::set_defaults(const char* file, const std::string& name) {
  for (const std::string& word : plan::words_in(words_of(file, name)))
    set_default(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
}

void CommandLine::parse(const std::vector<std::string>& args, bool completes) {
  for (const std::string& argument : args) {
    const bool all = argument == "--help=all";
    if (all || argument == "--help" || argument == "-h") throw HelpRequested{help(all)};
    NANOFSDP_REFUSE_IF(argument.starts_with("--help="), .what = "--help",
                       .expected = "--help or --help=all", .got = "'" + argument.substr(7) + "'");
  }
  std::optional<std::string> config;
  std::vector<std::pair<Option*, std::string>> typed;
  for (auto argument = args.begin(); argument != args.end(); ++argument) {
    if (!argument->starts_with("--")) {
      NANOFSDP_REFUSE_IF(argument->empty() || argument->starts_with('-') || config,
                         .what = "argument '" + *argument + "'", .expected = "--name=value",
                         .hint = "--help=all lists the names");
      config = *argument;
      continue;
    }
    const std::size_t equals = argument->find('=');
    const std::string name = argument->substr(2, equals - 2);
    std::string& value =
        name == "config" ? config.emplace() : typed.emplace_back(&find(name), "").second;
    NANOFSDP_REFUSE_IF(contains(refused_, name), .what = "--" + name,
                       .expected = "an option of this command, which --help=all lists",
                       .got = "one of `nanofsdp train` alone");
    if (equals != std::string::npos) {
      value = argument->substr(equals + 1);
    } else if (argument + 1 != args.end() && !argument[1].starts_with("--")) {
      value = *++argument;
    } else {
      NANOFSDP_REFUSE(.what = *argument, .expected = *argument + "=VALUE", .got = "no value");
    }
  }

  std::vector<Option*> order;  // options that are set, each where it was set last
  const auto assign = [&](Option& option, const std::string& value, const std::string& place) {
    option.value = value, option.place = place;
    std::erase(order, &option);
    order.push_back(&option);
  };
  if (config) {
    const Config file = read_config(*config);
    recipe_ = fmt::format("nanoGPT's defaults, and {}{}", *config,
                          file.imports ? " (its imports are passed over)" : "");
    for (const auto& [name, value, line] : file.settings) {
      const bool is_default = line == 0, known = options_.contains(name);
      if (!known && (is_default || file.helpers.contains(name))) continue;
      if (is_default && !completes) continue;
      const std::string place = fmt::format("{}:{}: ", *config, line);
      NANOFSDP_REFUSE_IF(name == "config", .what = place + "a config file cannot name another");
      assign(find(name, place), value, is_default ? kNanoGptsPlace : place);
    }
  }
  for (const auto& [option, value] : typed) assign(*option, value, "");  // these come last
  for (const Option* option : order) apply(*option);
}

}  // namespace cli
}  // namespace nanofsdp
