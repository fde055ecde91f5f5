#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief Reads nanoGPT's config files: Python assignments, one in each line.
///
///     import time
///     batch_size = 64  # a comment
///     out_dir = 'out-shakespeare-char'
///     always_save_checkpoint = False
///     gradient_accumulation_steps = 5 * 8
///     wandb_run_name = 'ft-' + str(time.time())
///
/// A value is one expression. It may compute numbers with + - * / // % ** and parentheses, join
/// strings with +, read names from above, and call str(x), int(x) and time.time(). A number that
/// stands alone keeps the digits that were typed. Whole numbers are exact up to 2^53, and a whole
/// result has no fraction in its text, as in 600000 / 2. Imports are skipped. A setting that such a
/// file leaves out has the default of nanoGPT's train.py.

/// One line `name = value`.
struct Setting {
  std::string name;
  std::string value;  ///< without quotes
  int line = 0;       ///< counted from 1; 0: the file leaves it out, this is nanoGPT's default
};

/// The contents of a file.
struct Config {
  std::vector<Setting> settings;    ///< nanoGPT's defaults come first
  std::set<std::string> helpers{};  ///< names that other lines read
  bool imports = false;             ///< whether there were import lines, which are passed over
};

/// @param path names the text in messages
/// @throws UsageError naming the line that is not `name = value`
Config parse_config(std::string_view text, const std::string& path);

/// Reads the file at `path`. If there is no such file, it reads the built-in config of the same
/// base name: "config/train_shakespeare_char.py" and "train_shakespeare_char" are the same.
/// @throws UsageError listing the built-in ones if there is neither
Config read_config(const std::string& path);

}  // namespace nanofsdp::cli
