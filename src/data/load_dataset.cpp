#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "data/bpe_tokenizer.h"
#include "data/dataset.h"
#include "data/tales.h"

namespace nanofsdp::data {
namespace {

// The largest text in bytes. Encoding takes six times as much memory.
constexpr std::uint64_t kMostText = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostOfMeta = 1 << 26;
constexpr std::int64_t kVocabSize = 50304;  // nanoGPT's number: GPT-2's 50257, padded for speed

// The tokenizer that nanoGPT's meta.pkl, as JSON, describes: its characters if it has them, else
// only the number of tokens, whose texts are then `pieces`.
std::shared_ptr<const Tokenizer> tokenizer_from_meta(const std::vector<std::string>& pieces,
                                                     const nlohmann::json& meta) {
  const auto stoi = meta.value("stoi", nlohmann::json::object());
  const std::int64_t vocab_size = meta.at("vocab_size");
  if (!meta["vocab_size"].is_number_integer() || vocab_size < 1 || vocab_size > 65'536 ||
      !stoi.is_object())
    throw std::invalid_argument("something else");
  if (stoi.empty()) return std::make_shared<BpeTokenizer>(vocab_size, pieces);
  std::string chars;
  for (const auto& [c, token] : stoi.items()) chars += c;
  auto tokenizer = std::make_shared<CharTokenizer>(chars);
  bool same = tokenizer->vocab_size() == vocab_size;
  for (const auto& [c, token] : stoi.items())
    same = same && nlohmann::json(tokenizer->encode(c)) == nlohmann::json::array({token});
  if (same) return tokenizer;
  throw std::invalid_argument("another order, or another number of them");
}

std::shared_ptr<const Tokenizer> tokenizer_beside(const std::string& folder, const TextOptions& o) {
  const auto exists = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(folder + name, ignored);
  };
  const auto pieces = exists("/vocab.json") ? read_vocab_in(folder) : o.pieces;
  if (const std::string path = folder + "/meta.json"; exists("/meta.json")) {
    const Fault fault{.what = "vocabulary '" + path + "'",
                      .expected =
                          "nanoGPT's meta.pkl as JSON: vocab_size, and stoi in the order "
                          "of its characters"};
    return parse_json(read_file(path, fault, kMostOfMeta), fault,
                      std::bind_front(tokenizer_from_meta, pieces));
  }
  NANOFSDP_REFUSE_IF(
      exists("/meta.pkl"), .what = "'" + folder + "/meta.pkl'",
      .expected = "meta.json beside it: only Python reads the other",
      .hint = fmt::format("python3 -c \"import json, pickle; json.dump(pickle.load(open('{0}/"
                          "meta.pkl', 'rb')), open('{0}/meta.json', 'w'))\"",
                          folder));
  return std::make_shared<BpeTokenizer>(o.vocab_size > 0 ? o.vocab_size : kVocabSize, pieces);
}

Dataset encoded_dataset(const TextOptions& o, std::int64_t block_size) {
  const std::string folder = "data/" + o.dataset;
  const Fault fault{.what = "--dataset=" + o.dataset,
                    .expected = "tales, shakespeare_char, or " + folder +
                                "/train.bin and val.bin, which nanoGPT's prepare.py writes",
                    .hint =
                        "--dataset=tales is built in, --text=FILE is a text of your own (a "
                        "config file that names none means nanoGPT's openwebtext)"};
  MappedFile train(folder + "/train.bin", fault), val(folder + "/val.bin", fault);
  return Dataset(std::move(train), std::move(val), tokenizer_beside(folder, o), folder, block_size);
}

Dataset any_dataset(const TextOptions& o, std::int64_t block_size) {
  std::string path = o.text, hint = "--text names a UTF-8 file";
  if (path.empty() && o.dataset == "shakespeare_char") {
    const char* named = std::getenv("NANOFSDP_SHAKESPEARE");
    path = named && *named ? named : "data/shakespeare_char/input.txt";
    hint = "run `make shakespeare`, or name the file in NANOFSDP_SHAKESPEARE";
  }
  if (!path.empty()) {
    const Fault fault{.what = "text '" + path + "'", .expected = "a text file", .hint = hint};
    return Dataset(read_text(path, fault, kMostText), path, block_size);
  }
  if (o.dataset != "tales") return encoded_dataset(o, block_size);
  return Dataset(expand_tales(kTalesGrammar, kTalesBytes), "tales", block_size);
}

}  // namespace

Dataset load_dataset(const TextOptions& options, std::int64_t block_size) {
  Dataset dataset = any_dataset(options, block_size);
  NANOFSDP_REFUSE_IF(!options.chars.empty() && dataset.tokenizer().chars() != options.chars,
                     .what = "data '" + dataset.name() + "'",
                     .expected = "the characters of the model: '" + options.chars + "'",
                     .got = "'" + dataset.tokenizer().chars() + "'",
                     .hint = "give the text that it was trained on, or one of the same characters");
  const std::int64_t vocab_size = dataset.tokenizer().vocab_size();
  const bool as_many = options.vocab_size == 0 || options.vocab_size == vocab_size;
  const bool alike = options.pieces.empty() || options.pieces == dataset.tokenizer().pieces();
  if (as_many && alike) return dataset;
  NANOFSDP_REFUSE(.what = "data '" + dataset.name() + "'",
                  .expected = fmt::format("the {} tokens of the model", options.vocab_size),
                  .got = fmt::format("a vocabulary of {}{}", vocab_size, alike ? "" : " others"),
                  .hint = "encode the text with the model's tokenizer, in nanoGPT's prepare.py");
}

}  // namespace nanofsdp::data
