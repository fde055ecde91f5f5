#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nanofsdp::train {

/// @file
/// @brief A table of options `--name=value` that fills variables, and its help text. CLI11 takes
/// the arguments apart; the messages are ours.

class CommandLine {
 public:
  using Setter = std::function<void(const std::string& value)>;  ///< throws UsageError

  /// @param usage the first lines of the help text
  explicit CommandLine(std::string usage) : usage_(std::move(usage)) {}

  /// A heading in the help text, over the options added next.
  void group(std::string title);

  /// An option whose value goes to `target`, which holds its default now and outlives this object.
  /// Integers and numbers must fill the whole value; booleans are True, False, true, false, 1, 0.
  void add(const std::string& name, const std::string& help, std::string& target);
  void add(const std::string& name, const std::string& help, std::int64_t& target);
  void add(const std::string& name, const std::string& help, int& target);
  void add(const std::string& name, const std::string& help, double& target);
  void add(const std::string& name, const std::string& help, bool& target);

  /// An option with a setter of its own.
  void add(const std::string& name, const std::string& help, std::string shown_default,
           Setter setter);

  /// Sets the variables: first from the config file, if a positional argument or --config names
  /// one, then from `args`; of repeated options the last one counts.
  /// @throws UsageError naming the option, for an unknown one also the nearest that exists
  /// @throws HelpRequested (options.h) if --help or -h is among the arguments
  void parse(const std::vector<std::string>& args);

  /// Whether the last parse() saw the option among its arguments (not only in the config file).
  bool given(const std::string& name) const;

  std::string help() const;

 private:
  struct Option {
    std::string group;
    std::string name;
    std::string help;
    std::string shown_default;
    Setter setter;
  };

  void apply(const std::vector<std::string>& args, std::string& config);
  void apply_config(const std::string& path);
  std::string nearest(const std::string& name) const;

  std::string usage_;
  std::string group_;
  std::vector<Option> options_;
  std::vector<std::string> given_;
};

}  // namespace nanofsdp::train
