#include "train/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "train/config_file.h"
#include "train/options.h"

namespace nanofsdp::train {
namespace {

[[noreturn]] void wrong_value(const std::string& name, const char* expected,
                              const std::string& value) {
  throw UsageError({.what = "--" + name, .expected = expected, .got = "'" + value + "'"});
}

template <class T>
T parse_integer(const std::string& name, const std::string& value) {
  T result{};
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, result);
  if (error == std::errc::result_out_of_range) wrong_value(name, "a smaller number", value);
  if (error != std::errc() || stop != end) wrong_value(name, "an integer", value);
  return result;
}

double parse_number(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const double result = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !std::isfinite(result)) wrong_value(name, "a number", value);
  return result;
}

bool parse_bool(const std::string& name, const std::string& value) {
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  wrong_value(name, "True or False", value);
}

/// Levenshtein's: how many characters to insert, remove or replace to make one of the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

/// The name in "--name" or "--name=value".
std::string name_in(const std::string& argument) {
  return argument.substr(2, argument.find('=') - 2);
}

}  // namespace

void CommandLine::group(std::string title) { group_ = std::move(title); }

void CommandLine::add(const std::string& name, const std::string& help, std::string shown_default,
                      Setter setter) {
  options_.push_back({group_, name, help, std::move(shown_default), std::move(setter)});
}

void CommandLine::add(const std::string& name, const std::string& help, std::string& target) {
  // A newline is shown as it would be written in a string.
  add(name, help, target == "\n" ? "\\n" : target,
      [&target](const std::string& value) { target = value; });
}

void CommandLine::add(const std::string& name, const std::string& help, std::int64_t& target) {
  add(name, help, std::to_string(target), [name, &target](const std::string& value) {
    target = parse_integer<std::int64_t>(name, value);
  });
}

void CommandLine::add(const std::string& name, const std::string& help, int& target) {
  add(name, help, std::to_string(target),
      [name, &target](const std::string& value) { target = parse_integer<int>(name, value); });
}

void CommandLine::add(const std::string& name, const std::string& help, double& target) {
  add(name, help, fmt::format("{}", target),
      [name, &target](const std::string& value) { target = parse_number(name, value); });
}

void CommandLine::add(const std::string& name, const std::string& help, bool& target) {
  add(name, help, target ? "True" : "False",
      [name, &target](const std::string& value) { target = parse_bool(name, value); });
}

std::string CommandLine::help() const {
  std::string text = usage_;
  std::string_view group;
  for (const Option& option : options_) {
    if (option.group != group) text += fmt::format("\n{}\n", group = option.group);
    text += fmt::format("  {:<33} {}\n", fmt::format("--{}={}", option.name, option.shown_default),
                        option.help);
  }
  return text;
}

bool CommandLine::given(const std::string& name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

std::string CommandLine::nearest(const std::string& name) const {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const Option& option : options_) {
    const std::size_t distance = edit_distance(name, option.name);
    if (distance < least) {
      best = option.name;
      least = distance;
    }
  }
  return best;
}

void CommandLine::parse(const std::vector<std::string>& args) {
  for (const std::string& argument : args) {
    if (argument == "--help" || argument == "-h") throw HelpRequested{help()};
  }
  std::string config;
  apply(args, config);
  if (config.empty()) return;
  apply_config(config);
  apply(args, config);  // again: the command line has the last word
}

void CommandLine::apply_config(const std::string& path) {
  for (const Setting& setting : read_config(path)) {
    try {
      std::string nested;
      apply({"--" + setting.name + "=" + setting.value}, nested);
      if (!nested.empty()) throw UsageError({.what = "a config file cannot name another"});
    } catch (const UsageError& error) {
      throw UsageError({.what = fmt::format("{}:{}: {}", path, setting.line, error.what())});
    }
  }
}

void CommandLine::apply(const std::vector<std::string>& args, std::string& config) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_option("config,--config", config)->take_last();
  for (const Option& option : options_) {
    app.add_option_function<std::string>("--" + option.name, option.setter)->take_last();
  }

  // CLI11 pops arguments from the back. It would take whatever follows for the value of an option
  // that has none: "--name=" gets its empty one, and a bare "--name" none that looks like an
  // option.
  std::vector<std::string> reversed;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& argument = args[i];
    if (argument.size() > 2 && argument.starts_with("--") && argument.back() == '=' &&
        argument.find('=') == argument.size() - 1) {
      reversed.insert(reversed.end(), {argument.substr(0, argument.size() - 1), ""});
      continue;
    }
    if (app.get_option_no_throw(argument) != nullptr && argument.starts_with("--") &&
        (i + 1 == args.size() || args[i + 1].starts_with("--"))) {
      throw UsageError({.what = argument, .expected = argument + "=VALUE", .got = "no value"});
    }
    reversed.push_back(argument);
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {  // none is known that gets here
    throw UsageError({.what = error.what(), .hint = "--help lists the options"});
  }

  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty()) {
    const std::string& argument = unknown.front();
    if (!argument.starts_with("--")) {
      throw UsageError({.what = "argument '" + argument + "'",
                        .expected = "--name=value",
                        .hint = "--help lists the names"});
    }
    const std::string name = name_in(argument);
    const std::string similar = nearest(name);
    throw UsageError(
        {.what = "unknown option --" + name,
         .hint = similar.empty() ? "--help lists them" : "did you mean --" + similar + "?"});
  }
  given_.clear();
  for (const Option& option : options_) {
    if (app.count("--" + option.name) > 0) given_.push_back(option.name);
  }
}

}  // namespace nanofsdp::train
