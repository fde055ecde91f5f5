#include "data/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace nanofsdp::data {
namespace {

constexpr std::string_view kNumbers = "TOKENS:";
constexpr std::uint64_t kMostBytes = 1 << 26;  // GPT-2's file has 1 MB

// The byte that each character below U+0144 stands for, or -1 if it stands for none.
constexpr std::array<int, 0x144> bytes_of_characters() {
  std::array<int, 0x144> bytes{};
  bytes.fill(-1);
  std::size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    bytes[prints ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return bytes;
}

constexpr auto kBytes = bytes_of_characters();

// The bytes that a piece stands for.
std::string bytes_of(const std::string& piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const char32_t character = next_character(piece, at);
    NANOFSDP_REFUSE_IF(character >= kBytes.size() || kBytes[character] < 0, .what = "vocabulary",
                       .expected = "pieces in the letters of GPT-2's bytes",
                       .got = "'" + piece + "'");
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

// The numbers of a list of tokens. The result is empty unless each number is a token.
std::vector<std::int32_t> numbers_in(std::string list, std::int64_t vocab_size) {
  std::ranges::replace(list, ',', ' ');
  std::istringstream in(list);
  std::vector<std::int32_t> tokens;
  for (std::int32_t token; !(in >> std::ws).eof(); tokens.push_back(token))
    if (!(in >> token) || token < 0 || token >= vocab_size) return {};
  return tokens;
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::int64_t vocab_size, std::vector<std::string> pieces)
    : Tokenizer(vocab_size, "<|endoftext|>"), pieces_(std::move(pieces)) {
  NANOFSDP_REFUSE_IF(std::ssize(pieces_) > vocab_size_, .what = "vocabulary",
                     .expected = fmt::format("at most {} pieces, as the model has", vocab_size_),
                     .got = fmt::to_string(pieces_.size()));
  for (const std::string& piece : pieces_) texts_.push_back(bytes_of(piece));
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  if (const std::int32_t token = find(text); token >= 0) return {token};
  if (text.starts_with(kNumbers)) {
    const auto tokens = numbers_in(std::string(text.substr(kNumbers.size())), vocab_size_);
    if (!tokens.empty()) return tokens;
  }
  NANOFSDP_REFUSE(
          .what = "--start",
          .expected =
              fmt::format("{}a text that is one token, or {} and numbers below {}",
                          pieces_.empty() ? "with --vocab=vocab.json " : "", kNumbers, vocab_size_),
          .got = "'" + std::string(text) + "'",
          .hint =
              "nanoGPT's tiktoken encodes: --start=TOKENS:\"$(python3 -c \"import tiktoken; "
              "print(*tiktoken.get_encoding('gpt2').encode('...'))\")\"");
}

std::vector<std::string> read_vocab(const std::string& path) {
  const Fault fault{.what = "vocabulary '" + path + "'", .expected = "GPT-2's vocab.json"};
  return parse_json(read_file(path, fault, kMostBytes), fault, [](const nlohmann::json& list) {
    std::vector<std::string> pieces(list.is_object() ? list.size() : 0);
    if (pieces.empty()) throw std::invalid_argument("something else");
    for (const auto& [piece, token] : list.items()) {
      const std::size_t i = token.is_number_unsigned() ? token.get<std::size_t>() : pieces.size();
      if (i >= pieces.size() || !pieces[i].empty() || piece.empty())
        throw std::invalid_argument(fmt::format("'{}': {}", piece, token.dump()));
      pieces[i] = piece;
    }
    return pieces;
  });
}

std::vector<std::string> read_vocab_in(const std::string& directory) {
  const std::string path = directory + "/vocab.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  return read_vocab(path);
}

}  // namespace nanofsdp::data
