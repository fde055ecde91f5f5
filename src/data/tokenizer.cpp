#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace nanofsdp::data {
namespace {

std::string utf8(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  const int more = code >= 0x10000 ? 3 : code >= 0x800 ? 2 : 1;  // number of bytes that continue it
  std::string text{static_cast<char>((0xf0 << (3 - more) & 0xff) | code >> 6 * more)};
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
  return text;
}

}  // namespace

// Overlong forms, halves of UTF-16 pairs and code points above U+10FFFF are refused.
char32_t next_character(std::string_view text, std::size_t& at) {
  const std::string_view rest = text.substr(at);
  const auto first = static_cast<unsigned char>(rest[0]);
  if (first < 0x80) return ++at, first;
  const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  char32_t code = first & (0x3fu >> more);
  for (const char c : rest.substr(1, more)) code = code << 6 | (static_cast<char32_t>(c) & 0x3f);
  // Each code point has exactly one form in UTF-8. If the bytes are another form, they are not
  // UTF-8.
  const std::string encoded = utf8(code);
  NANOFSDP_REFUSE_IF(
      !rest.starts_with(encoded) || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff),
      .what = fmt::format("byte {}", at), .expected = "UTF-8",
      .got = fmt::format("0x{:02x}", first),
      .hint = "convert it, as with: iconv -f ENCODING -t UTF-8");
  at += encoded.size();
  return code;
}

std::int32_t Tokenizer::find(std::string_view text) const {
  const auto found = std::ranges::find(texts_, text);
  return found == texts_.end() ? -1 : static_cast<std::int32_t>(found - texts_.begin());
}

std::int32_t Tokenizer::opening() const { return std::max(find(opening_), 0); }

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    NANOFSDP_CHECK(token >= 0 && token < vocab_size_, .what = "token",
                   .expected = fmt::format("below {}", vocab_size_), .got = fmt::to_string(token));
    const auto i = static_cast<std::size_t>(token);
    text += i < texts_.size() ? texts_[i] : fmt::format("{} ", token);
  }
  return text;
}

CharTokenizer::CharTokenizer(std::string_view text) : Tokenizer(0, "\n") {
  std::vector<bool> seen(0x110000);
  for (std::size_t at = 0; at < text.size();) seen[next_character(text, at)] = true;
  for (std::size_t code = 0; code < seen.size(); ++code) {
    if (!seen[code]) continue;
    alphabet_ += static_cast<char32_t>(code);
    texts_.push_back(utf8(alphabet_.back()));
  }
  vocab_size_ = std::ssize(alphabet_);
}

std::string CharTokenizer::chars() const {
  std::string all;
  for (const std::string& character : texts_) all += character;
  return all;
}

std::vector<std::int32_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    const auto place = std::lower_bound(alphabet_.begin(), alphabet_.end(), code);
    if (place == alphabet_.end() || *place != code) {
      // Characters that move the cursor are not shown.
      const bool shows = code > 0x9f || (code >= 0x20 && code < 0x7f);
      NANOFSDP_REFUSE(.what = fmt::format("character U+{:04X}{}", static_cast<std::uint32_t>(code),
                                          shows ? " '" + utf8(code) + "'" : ""),
                      .expected = fmt::format("one of the {} that the model was trained on",
                                              alphabet_.size()),
                      .hint = "leave it out of --start");
    }
    tokens.push_back(static_cast<std::int32_t>(place - alphabet_.begin()));
  }
  return tokens;
}

}  // namespace nanofsdp::data
