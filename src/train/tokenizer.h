#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::train {

/// @file
/// @brief Characters to tokens and back: a token is a character's place in the sorted alphabet.
///
/// As nanoGPT's data/shakespeare_char/prepare.py: `chars = sorted(set(text))`. A character is a
/// Unicode code point; texts are UTF-8.
class CharTokenizer {
 public:
  /// The alphabet of `text`. That of chars() is the same alphabet: so it is saved and restored.
  /// @throws UsageError naming the byte at which `text` stops being UTF-8
  explicit CharTokenizer(std::string_view text);

  std::int64_t vocab_size() const { return static_cast<std::int64_t>(alphabet_.size()); }

  /// Every character once, in the order of its token, as UTF-8.
  std::string chars() const;

  /// @throws UsageError naming a character that is not in the alphabet, or where UTF-8 ends
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// @pre 0 <= token < vocab_size() for each
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::u32string alphabet_;  // sorted, no two equal
};

}  // namespace nanofsdp::train
