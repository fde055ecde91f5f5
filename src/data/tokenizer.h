#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nanofsdp::data {

/// @file
/// @brief Tokenizers turn text into tokens and back: what they share, and the tokenizer of
/// characters.

/// A tokenizer knows the text of each token. It turns text into int32 tokens, and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The number of different tokens; some may have no text.
  std::int64_t vocab_size() const { return vocab_size_; }

  /// The tokens of a prompt.
  /// @throws UsageError that names what it cannot encode
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The text of the tokens. A token without a text becomes its number and a space.
  /// @throws Error unless 0 <= token < vocab_size() for each
  std::string decode(std::span<const std::int32_t> tokens) const;

  /// The first token of a text, if the user has given none: the end of a line if tokens are
  /// characters, and `<|endoftext|>`, which stands between documents, if they are GPT-2's. If the
  /// tokenizer has no such token, it is the first one.
  std::int32_t opening() const;

  /// The texts from which a tokenizer is made again, together with vocab_size(). Either this one,
  /// every character once, as UTF-8, ...
  virtual std::string chars() const { return {}; }
  /// ... or pieces(), the texts of its tokens in their order (bpe_tokenizer.h).
  virtual std::vector<std::string> pieces() const { return {}; }

 protected:
  Tokenizer(std::int64_t vocab_size, const char* opening)
      : vocab_size_(vocab_size), opening_(opening) {}
  /// The token that has this text; -1 if none has.
  std::int32_t find(std::string_view text) const;

  std::int64_t vocab_size_;
  std::vector<std::string> texts_;  ///< the texts of the first tokens
  const char* opening_;             ///< the text of the opening token
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

  /// Every character once, in the order of its token, as UTF-8.
  std::string chars() const override;

  /// @throws UsageError naming a character that is not in the alphabet, or the byte that is not
  /// UTF-8
  std::vector<std::int32_t> encode(std::string_view text) const override;

 private:
  std::u32string alphabet_;  // sorted, all different
};

/// Returns the character of `text` that begins at byte `at`, and moves `at` behind it.
/// @throws UsageError naming the byte at which `text` is not UTF-8 (RFC 3629)
char32_t next_character(std::string_view text, std::size_t& at);

}  // namespace nanofsdp::data
