#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace nanofsdp::data {

/// @file
/// @brief GPT-2's tokens, read back: byte-level BPE (Radford et al. 2019, section 2.2).
///
/// A token stands for a piece of text, a few bytes of it. The file vocab.json lists the pieces as
/// strings, a character a byte: 188 bytes that print are themselves, the other 68 are the
/// characters from U+0100 on, in order, so that a space is written U+0120 and the end of a line
/// U+010A.
///
/// Cutting a text into pieces takes more than the list, and is left to nanoGPT's prepare.py.

/// GPT-2's list of pieces, to decode with, and to look up a prompt that is one piece.
class BpeTokenizer final : public Tokenizer {
 public:
  /// @param vocab_size of the model; GPT-2's 50257 are often padded to 50304
  /// @param pieces as in vocab.json, at most vocab_size; none if the list is not at hand, for then
  ///        tokens are shown as numbers
  /// @throws UsageError naming a piece that is not of bytes
  BpeTokenizer(std::int64_t vocab_size, std::vector<std::string> pieces);

  std::int64_t vocab_size() const override { return vocab_size_; }
  std::vector<std::string> pieces() const override { return pieces_; }

  /// What is a piece as a whole, such as `"\n"`, `" the"` or `"<|endoftext|>"`; or `TOKENS:` and
  /// numbers.
  std::vector<std::int32_t> encode(std::string_view text) const override;

  /// The pieces' bytes: where they end amid a character, not UTF-8. A token without a piece is its
  /// number and a space.
  std::string decode(std::span<const std::int32_t> tokens) const override;

  /// `<|endoftext|>`, which stands between GPT-2's documents; without it, the first token.
  std::int32_t opening() const override;

 private:
  std::int32_t find(std::string_view piece) const;

  std::int64_t vocab_size_;
  std::vector<std::string> pieces_;
  std::vector<std::string> bytes_;  // of each piece
};

/// The pieces that a vocab.json lists, in the order of their tokens.
/// @throws UsageError if the file is not such a list
std::vector<std::string> read_vocab(const std::string& path);

/// Those of the vocab.json in a directory; none where none lies there.
std::vector<std::string> read_vocab_in(const std::string& directory);

}  // namespace nanofsdp::data
