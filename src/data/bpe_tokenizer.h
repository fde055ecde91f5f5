#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace nanofsdp::data {

/// @file
/// @brief Turns GPT-2's tokens back into text: byte-level BPE (Radford et al. 2019, section 2.2).
///
/// A token stands for a piece of text, a few bytes long. The file vocab.json lists the pieces as
/// strings, with one character for each byte. The 188 bytes that print stand for themselves; the
/// other 68 are written as the characters from U+0100 on, in order. So a space is U+0120 and the
/// end of a line is U+010A.
///
/// The list is not enough to cut a text into pieces: nanoGPT's prepare.py does that.

/// GPT-2's list of pieces. It decodes tokens to the bytes of their pieces, which are not UTF-8 if
/// they end within a character. It encodes a prompt that is one piece.
class BpeTokenizer final : public Tokenizer {
 public:
  /// @param vocab_size the number of tokens of the model; GPT-2's 50257 are often padded to 50304
  /// @param pieces as in vocab.json, at most vocab_size. If there are none, tokens are shown as
  ///        numbers
  /// @throws UsageError naming a piece whose characters stand for no bytes
  BpeTokenizer(std::int64_t vocab_size, std::vector<std::string> pieces);

  std::vector<std::string> pieces() const override { return pieces_; }

  /// Encodes a text that is one piece, such as `"\n"`, `" the"` or `"<|endoftext|>"`; or `TOKENS:`
  /// and numbers.
  std::vector<std::int32_t> encode(std::string_view text) const override;

 private:
  std::vector<std::string> pieces_;
};

/// The pieces that a vocab.json lists, in the order of their tokens.
/// @throws UsageError if the file is not such a list
std::vector<std::string> read_vocab(const std::string& path);

/// The pieces of the vocab.json in a directory; empty if there is no such file.
std::vector<std::string> read_vocab_in(const std::string& directory);

}  // namespace nanofsdp::data
