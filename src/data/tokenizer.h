#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::data {

/// @file
/// @brief Tokenizers turn text into tokens and back: their interface, and the tokenizer of
/// characters.

/// The interface of tokenizers: text to int32 tokens, and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The number of different tokens; some may have no text.
  virtual std::int64_t vocab_size() const = 0;

  /// The tokens of a prompt.
  /// @throws UsageError that names what it cannot encode
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The text of the tokens.
  /// @pre 0 <= token < vocab_size() for each
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;

  /// The first token of a text, if the user has given none.
  virtual std::int32_t opening() const = 0;

  /// The texts from which a tokenizer is made again, together with vocab_size(). Either this one,
  /// every character once, as UTF-8, ...
  virtual std::string chars() const { return {}; }
  /// ... or pieces(), the texts of its tokens in their order (bpe_tokenizer.h).
  virtual std::vector<std::string> pieces() const { return {}; }
};

/// A token is a character's place in the sorted alphabet, as in nanoGPT's
/// data/shakespeare_char/prepare.py: `chars = sorted(set(text))`. A character is a Unicode code
/// point; texts are UTF-8.
class CharTokenizer final : public Tokenizer {
 public:
  /// Takes the alphabet of `text`. chars() has the same alphabet, so a tokenizer is restored from
  /// it.
  /// @throws UsageError naming the byte at which `text` stops being UTF-8
  explicit CharTokenizer(std::string_view text);

  std::int64_t vocab_size() const override { return std::ssize(alphabet_); }

  /// Every character once, in the order of its token, as UTF-8.
  std::string chars() const override;

  /// @throws UsageError naming a character that is not in the alphabet, or the byte that is not
  /// UTF-8
  std::vector<std::int32_t> encode(std::string_view text) const override;

  std::string decode(std::span<const std::int32_t> tokens) const override;

  /// The end of a line; if the alphabet has none, its first character.
  std::int32_t opening() const override;

 private:
  std::u32string alphabet_;  // sorted, all different
};

/// Returns the character of `text` that begins at byte `at`, and moves `at` behind it.
/// @throws UsageError naming the byte at which `text` is not UTF-8 (RFC 3629)
char32_t next_character(std::string_view text, std::size_t& at);

}  // namespace nanofsdp::data
