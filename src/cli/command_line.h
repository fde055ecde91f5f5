#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief A table of options `--name=value` that fills variables, and its help text. The words for
/// people lie in data/help: a file for each command, and a line for each option in options.txt,
/// under a heading.

/// The numbers an option takes: least <= value < end.
struct Range {
  double least;
  double end;
  const char* words;  ///< the range in words, for messages
};

class CommandLine {
 public:
  using Setter = std::function<void(const std::string& value)>;  ///< it throws UsageError

  /// @param command data/help/COMMAND.txt has the first lines of the help text, and the names of
  ///   the options that --help lists. If it names none, --help lists all, as --help=all always does
  /// @param refused names of options that only a config file may set; no help lists them
  explicit CommandLine(std::string command, std::string refused = "");

  /// Adds an option whose value goes to `target`. The target holds the default now, and outlives
  /// this object. Integers and numbers must fill the whole value. Booleans are True, False, true,
  /// false, 1, 0.
  void add(const std::string& name, std::string& target);
  void add(const std::string& name, bool& target);
  template <class Number>  // Number is int, std::int64_t or double
  void add(const std::string& name, Number& target, const Range& range);

  /// Adds an option that is one of a few words.
  /// @param usual its default; empty: the first word
  void choose(const std::string& name, const std::vector<std::string>& words, Setter setter,
              const std::string& usual = "");

  /// Adds an option with a setter of its own. If the line has an option of this name already, no
  /// add() or choose() changes it.
  void add(const std::string& name, std::string shown_default, Setter setter);

  /// Sets the variables: first from the config file, if a positional argument or --config names
  /// one, then from `args` (--name=value or --name value). If an option is given twice, or two
  /// options name the same, as --strategy and --zero do, the last value counts.
  /// @param completes whether options that a config file leaves out get nanoGPT's default, if this
  ///   line has them. (Without a config file, the variables have their own.)
  /// @throws UsageError naming the option, for an unknown one also the nearest that exists
  /// @throws HelpRequested (options.h) if --help, -h or --help=all is among the arguments
  void parse(const std::vector<std::string>& args, bool completes = false);

  /// Whether parse() saw the option among its arguments (not only in the config file).
  bool given(const std::string& name) { return find(name).place == ""; }

  /// Whether the option has its default, or nanoGPT's, because neither the command line nor a file
  /// has set it.
  bool is_default(const std::string& name) {
    return find(name).place.value_or(kNanoGptsPlace) == kNanoGptsPlace;
  }

  /// The settings with which parse() began, for people: "nanoGPT's defaults, and
  /// config/train_gpt2.py".
  const std::string& recipe() const { return recipe_; }

  /// The value of an option: the given one, or the default.
  const std::string& value(const std::string& name) { return find(name).value; }

  /// After parse(): sets an option, as if `place` had given it ("file.json: "), which errors name.
  void set(const std::string& name, const std::string& value, const std::string& place);

  /// After parse(): sets an option that has its default, and which keeps it in the sense of
  /// is_default().
  void set_default(const std::string& name, const std::string& value) {
    if (is_default(name)) set(name, value, kNanoGptsPlace);
  }

  /// After parse(): calls set_default() for each "option=value" that data/help/FILE.txt has behind
  /// a name.
  void set_defaults(const char* file, const std::string& name);

  /// Adds a note for each option that was typed and does nothing, with the first reason that holds.
  /// @param reasons whether each holds, and its name in data/help/idle.txt
  void note_idle(std::vector<std::string>& notes,
                 std::initializer_list<std::pair<bool, const char*>> reasons) const;

  /// The words that data/help/FILE.txt has behind a name: this command's own, or those that all
  /// share; empty if there are none.
  std::string words_of(const char* file, const std::string& name) const;

  /// The values of all options except `leave_out`, by name: the given ones, or the defaults.
  std::map<std::string, std::string> settings(const std::vector<std::string>& leave_out) const;

 private:
  static constexpr const char* kNanoGptsPlace = "nanoGPT's default: ";
  struct Option {
    std::string value;  // the default, until parse() has read another value
    Setter setter;
    // The place of the given value: "", or "path:line: " in a config file.
    std::optional<std::string> place{};
  };

  Option& find(const std::string& name, const std::string& place = "");
  static void apply(const Option& option);
  std::string help(bool all) const;

  std::string command_, usage_, common_, refused_;
  std::string recipe_ = "nanoGPT's for a CPU, which its README gives";
  std::map<std::string, Option> options_;
};

}  // namespace nanofsdp::cli
