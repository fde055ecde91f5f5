#include "train/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace nanofsdp::train {
namespace {

/// The code point that starts at `at`, which moves behind it. RFC 3629: no longer form than needed,
/// no halves of UTF-16 pairs, nothing above U+10FFFF.
char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::size_t begin = at;
  char32_t code = byte(at++);
  if (code < 0x80) return code;

  const std::size_t more = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : 1;  // bytes that continue it
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};           // that needs so many
  bool valid = code >= 0xc0 && code < 0xf8 && text.size() - begin > more;
  code &= 0x3fu >> more;
  for (std::size_t i = 0; valid && i < more; ++i) {
    valid = (byte(at) & 0xc0) == 0x80;
    code = code << 6 | (byte(at++) & 0x3f);
  }
  valid = valid && code >= kLeast[more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  if (!valid) {
    throw UsageError({.what = fmt::format("byte {}", begin),
                      .expected = "UTF-8",
                      .got = fmt::format("0x{:02x}", std::uint32_t(byte(begin))),
                      .hint = "convert it, as with: iconv -t UTF-8"});
  }
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  const auto push = [&text](char32_t byte) { text += static_cast<char>(byte); };
  const auto continued = [&](int shift) { push(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xc0 | code >> 6);
    continued(0);
  } else if (code < 0x10000) {
    push(0xe0 | code >> 12);
    continued(6);
    continued(0);
  } else {
    push(0xf0 | code >> 18);
    continued(12);
    continued(6);
    continued(0);
  }
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view text) {
  std::vector<bool> seen(0x110000);
  for (std::size_t at = 0; at < text.size();) seen[next_character(text, at)] = true;
  for (std::size_t code = 0; code < seen.size(); ++code) {
    if (seen[code]) alphabet_ += static_cast<char32_t>(code);
  }
}

std::string CharTokenizer::chars() const {
  std::string text;
  for (const char32_t code : alphabet_) append_utf8(text, code);
  return text;
}

std::vector<std::int32_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    const auto place = std::lower_bound(alphabet_.begin(), alphabet_.end(), code);
    if (place == alphabet_.end() || *place != code) {
      std::string name = fmt::format("character U+{:04X}", static_cast<std::uint32_t>(code));
      if (code > 0x9f || (code >= 0x20 && code < 0x7f)) {  // not one that moves the cursor
        name += " '";
        append_utf8(name, code);
        name += "'";
      }
      throw UsageError({.what = name,
                        .expected = fmt::format("one of the {} that the model was trained on",
                                                alphabet_.size())});
    }
    tokens.push_back(static_cast<std::int32_t>(place - alphabet_.begin()));
  }
  return tokens;
}

std::string CharTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    NANOFSDP_CHECK(token >= 0 && token < vocab_size(), .what = "token",
                   .expected = fmt::format("below {}", vocab_size()), .got = fmt::to_string(token));
    append_utf8(text, alphabet_[static_cast<std::size_t>(token)]);
  }
  return text;
}

}  // namespace nanofsdp::train
