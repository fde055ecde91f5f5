#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::data {

/// @file
/// @brief Text to tokens and back: what every tokenizer can, and the one of characters.

/// The two ways between text and int32 tokens, to derive from.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Tokens that the model tells apart; some may have no text.
  virtual std::int64_t vocab_size() const = 0;

  /// The tokens of a prompt.
  /// @throws UsageError saying what it cannot read
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The text of the tokens.
  /// @pre 0 <= token < vocab_size() for each
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;

  /// The first token of a text, if the user has given none.
  virtual std::int32_t opening() const = 0;

  /// What restores the tokenizer, beside vocab_size(): every character once, as UTF-8, ...
  virtual std::string chars() const { return {}; }
  /// ... or the pieces of text, in the order of their tokens (bpe_tokenizer.h).
  virtual std::vector<std::string> pieces() const { return {}; }
};

/// A token is a character's place in the sorted alphabet, as in nanoGPT's
/// data/shakespeare_char/prepare.py: `chars = sorted(set(text))`. A character is a Unicode code
/// point; texts are UTF-8.
class CharTokenizer final : public Tokenizer {
 public:
  /// The alphabet of `text`. That of chars() is the same alphabet: so it is saved and restored.
  /// @throws UsageError naming the byte at which `text` stops being UTF-8
  explicit CharTokenizer(std::string_view text);

  std::int64_t vocab_size() const override { return std::ssize(alphabet_); }

  /// Every character once, in the order of its token, as UTF-8.
  std::string chars() const override;

  /// @throws UsageError naming a character that is not in the alphabet, or where UTF-8 ends
  std::vector<std::int32_t> encode(std::string_view text) const override;

  std::string decode(std::span<const std::int32_t> tokens) const override;

  /// The end of a line; of a text that has none, the first character.
  std::int32_t opening() const override;

 private:
  std::u32string alphabet_;  // sorted, no two equal
};

/// What `text` begins with: its first character, which `at` moves behind.
/// @throws UsageError naming the byte at which `text` is not UTF-8 (RFC 3629)
char32_t next_character(std::string_view text, std::size_t& at);

}  // namespace nanofsdp::data
