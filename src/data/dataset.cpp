#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fingerprint.h"

namespace nanofsdp::data {
namespace {

std::shared_ptr<const Tokenizer> tokenizer_of(std::string_view text, const std::string& name) try {
  return std::make_shared<CharTokenizer>(text);
} catch (const UsageError& error) {
  NANOFSDP_REFUSE(.what = "text '" + name + "', " + error.what());
}

std::vector<std::uint16_t> encode(std::string_view text, const Tokenizer& tokenizer,
                                  const std::string& name) {
  NANOFSDP_REFUSE_IF(tokenizer.vocab_size() > 65'536, .what = "text '" + name + "'",
                     .expected = "at most 65536 different characters",
                     .got = fmt::to_string(tokenizer.vocab_size()));
  const std::vector<std::int32_t> tokens = tokenizer.encode(text);
  return {tokens.begin(), tokens.end()};
}

std::span<const std::uint16_t> tokens_in(const MappedFile& file) {
  return {reinterpret_cast<const std::uint16_t*>(file.bytes().data()), file.bytes().size() / 2};
}

}  // namespace

Dataset::Dataset(std::string_view text, std::string name, std::int64_t block_size)
    : name_(std::move(name)),
      tokenizer_(tokenizer_of(text, name_)),
      block_size_(block_size),
      text_(encode(text, *tokenizer_, name_)) {
  const auto train = static_cast<std::size_t>(static_cast<double>(text_.size()) * 0.9);
  train_ = Tokens(text_).first(train);
  val_ = Tokens(text_).subspan(train);
  const std::int64_t shortest = std::min(size(Split::train), size(Split::val));
  if (shortest > block_size) return;
  const bool some = shortest > 1;
  NANOFSDP_REFUSE(.what = "text '" + name_ + "'",
                  .expected = fmt::format(
                      "more than {} characters in each split (9 : 1 of the text)", block_size),
                  .got =
                      text_.empty() ? "an empty text" : fmt::format("{} in the shorter", shortest),
                  .hint = some ? fmt::format("take a longer text, or --block_size={}", shortest - 1)
                               : "take a longer text");
}

Dataset::Dataset(MappedFile train, MappedFile val, std::shared_ptr<const Tokenizer> tokenizer,
                 std::string name, std::int64_t block_size)
    : name_(std::move(name)),
      tokenizer_(std::move(tokenizer)),
      block_size_(block_size),
      train_file_(std::move(train)),
      val_file_(std::move(val)),
      train_(tokens_in(train_file_)),
      val_(tokens_in(val_file_)) {
  for (const MappedFile* file : {&train_file_, &val_file_}) {
    const std::size_t bytes = file->bytes().size();
    if (bytes % 2 == 0 && bytes / 2 > static_cast<std::size_t>(block_size)) continue;
    NANOFSDP_REFUSE(.what =
                        fmt::format("{}/{}", name_, file == &train_file_ ? "train.bin" : "val.bin"),
                    .expected = fmt::format("more than {} tokens of two bytes", block_size),
                    .got = fmt::format("{} bytes", bytes));
  }
}

std::uint64_t Dataset::fingerprint() const {
  constexpr std::size_t kStretches = 256, kMany = 10'000'000, kShort = 4096;
  std::vector<std::uint64_t> parts;
  for (const Tokens all : {train_, val_}) {
    const std::size_t longest = all.size() < kMany ? all.size() : kShort;
    parts.push_back(all.size());
    for (std::size_t i = 0; i < kStretches; ++i) {
      const std::size_t begin = all.size() * i / kStretches;
      const std::size_t end = all.size() * (i + 1) / kStretches;
      const Tokens stretch = all.subspan(begin, std::min(end - begin, longest));
      parts.push_back(nanofsdp::fingerprint(std::as_bytes(stretch)));
    }
  }
  return nanofsdp::fingerprint(std::as_bytes(std::span(parts)));
}

std::int64_t Dataset::size(Split split) const { return std::ssize(tokens(split)); }

void Dataset::require_known(Tokens row, Split split) const {
  const auto largest = std::ranges::max_element(row);
  if (*largest < tokenizer_->vocab_size()) return;
  throw UsageError({.what = fmt::format("{}/{}, token {}", name_,
                                        split == Split::train ? "train.bin" : "val.bin",
                                        &*largest - tokens(split).data()),
                    .expected = fmt::format("below the vocabulary's {}", tokenizer_->vocab_size()),
                    .got = fmt::to_string(*largest)});
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
  const Tokens all = tokens(split);
  for (std::int64_t row = 0; row < batch_size; ++row) {
    const auto start = static_cast<std::size_t>(generator.randint(all.size() - T));
    if (row < rows.first || row >= rows.first + rows.count) continue;  // another rank's row
    const auto to = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row - rows.first) * T);
    const auto from = all.subspan(start, T + 1);
    require_known(from, split);
    std::copy(from.begin(), from.end() - 1, batch.x.begin() + to);
    std::copy(from.begin() + 1, from.end(), batch.y.begin() + to);
  }
}

}  // namespace nanofsdp::data
