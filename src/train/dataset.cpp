#include "train/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "comm/agreement.h"
#include "train/embedded.h"
#include "train/files.h"
#include "train/tales.h"

namespace nanofsdp::train {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;  // five times that as tokens

/// The file with line ends as \n, as Python reads a text.
std::string read_text(const std::string& path, const std::string& hint) {
  std::string text = read_file(
      path, {.what = "text '" + path + "'", .expected = "a text file", .hint = hint}, kMostBytes);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[kept++] = text[i] == '\r' ? '\n' : text[i];
  }
  text.resize(kept);
  return text;
}

CharTokenizer tokenizer_of(std::string_view text, const std::string& name) try {
  return CharTokenizer(text);
} catch (const UsageError& error) {
  throw UsageError({.what = "text '" + name + "', " + error.what()});
}

}  // namespace

Dataset::Dataset(std::string_view text, std::string name, std::int64_t block_size)
    : name_(std::move(name)),
      tokenizer_(tokenizer_of(text, name_)),
      block_size_(block_size),
      tokens_(tokenizer_.encode(text)),
      train_size_(static_cast<std::size_t>(static_cast<double>(tokens_.size()) * 0.9)) {
  const std::int64_t shortest = std::min(size(Split::train), size(Split::val));
  if (shortest > block_size) return;
  const bool some = shortest > 1;
  throw UsageError(
      {.what = "text '" + name_ + "'",
       .expected =
           fmt::format("more than {} characters in each split (9 : 1 of the text)", block_size),
       .got = tokens_.empty() ? "an empty text" : fmt::format("{} in the shorter", shortest),
       .hint = some ? fmt::format("take a longer text, or --block_size={}", shortest - 1)
                    : "take a longer text"});
}

std::uint64_t Dataset::fingerprint() const {
  return nanofsdp::fingerprint(std::as_bytes(std::span(tokens_)));
}

std::span<const std::int32_t> Dataset::tokens(Split split) const {
  const std::span<const std::int32_t> all(tokens_);
  return split == Split::train ? all.first(train_size_) : all.subspan(train_size_);
}

std::int64_t Dataset::size(Split split) const {
  return static_cast<std::int64_t>(tokens(split).size());
}

void Dataset::draw(Split split, Generator& generator, std::int64_t batch_size, BatchRows rows,
                   Batch batch) const {
  const auto T = static_cast<std::size_t>(block_size_);
  const std::size_t elements = static_cast<std::size_t>(rows.count) * T;
  NANOFSDP_CHECK(rows.first >= 0 && rows.count >= 0 && rows.first + rows.count <= batch_size,
                 .what = "rows of a batch", .expected = fmt::format("within [0, {})", batch_size),
                 .got = fmt::format("[{}, {})", rows.first, rows.first + rows.count));
  NANOFSDP_CHECK(batch.x.size() == elements && batch.y.size() == elements, .what = "batch",
                 .expected = fmt::format("{} tokens in x and in y", elements),
                 .got = fmt::format("{} and {}", batch.x.size(), batch.y.size()));
  const std::span<const std::int32_t> all = tokens(split);
  for (std::int64_t row = 0; row < batch_size; ++row) {
    const auto start = static_cast<std::size_t>(generator.randint(all.size() - T));
    if (row < rows.first || row >= rows.first + rows.count) continue;  // another rank's
    const auto to = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row - rows.first) * T);
    const auto from = all.subspan(start, T + 1);
    std::copy(from.begin(), from.end() - 1, batch.x.begin() + to);
    std::copy(from.begin() + 1, from.end(), batch.y.begin() + to);
  }
}

Dataset load_dataset(const TrainOptions& o) {
  if (!o.text.empty()) {
    return Dataset(read_text(o.text, "--text names a UTF-8 file"), o.text, o.block_size);
  }
  if (o.dataset == "shakespeare_char") {
    const char* named = std::getenv("NANOFSDP_SHAKESPEARE");
    const std::string path = named ? named : "data/shakespeare_char/input.txt";
    return Dataset(
        read_text(path, "run `make shakespeare`, or name the file in NANOFSDP_SHAKESPEARE"), path,
        o.block_size);
  }
  return Dataset(expand_tales(kTalesGrammar, kTalesBytes), "tales", o.block_size);
}

}  // namespace nanofsdp::train
