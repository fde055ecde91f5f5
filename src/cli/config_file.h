#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::cli {

/// @file
/// @brief nanoGPT's config files: Python assignments, of which only constants are understood.
///
///     # a comment
///     batch_size = 64  # another
///     out_dir = 'out-shakespeare-char'
///     always_save_checkpoint = False
///
/// Numbers, True, False and quoted strings; no expressions, no imports.

/// One line `name = value`.
struct Setting {
  std::string name;
  std::string value;  ///< without quotes
  int line = 0;       ///< counted from 1
};

/// @param path names the text in messages
/// @throws UsageError naming the line that is not `name = value`
std::vector<Setting> parse_config(std::string_view text, const std::string& path);

/// Reads the file at `path`. Where there is none, a built-in config of the same base name takes its
/// place: "config/train_shakespeare_char.py" and "train_shakespeare_char" are the same.
/// @throws UsageError listing the built-in ones if there is neither
std::vector<Setting> read_config(const std::string& path);

}  // namespace nanofsdp::cli
