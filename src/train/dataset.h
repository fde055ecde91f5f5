#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "train/batch_plan.h"
#include "train/options.h"
#include "train/tokenizer.h"

namespace nanofsdp::train {

/// @file
/// @brief A text as tokens, and random batches of it.

enum class Split { train, val };

/// Where a micro-batch goes, each [rows, T] row-major: y is x shifted by one token.
struct Batch {
  std::span<std::int32_t> x;
  std::span<std::int32_t> y;
};

/// A text in two splits, as nanoGPT's: the first int(0.9 n) characters to train on, the rest to
/// validate with. Immutable: ranks that are threads may share one.
class Dataset {
 public:
  /// @param name stands for the text in messages
  /// @throws UsageError if the text is empty, not UTF-8, or a split has not block_size + 1 tokens
  Dataset(std::string_view text, std::string name, std::int64_t block_size);

  const std::string& name() const { return name_; }
  const CharTokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t block_size() const { return block_size_; }
  std::int64_t size(Split split) const;  ///< tokens
  std::uint64_t fingerprint() const;     ///< of its tokens, to compare with other ranks'

  /// nanoGPT's get_batch, for the rank that owns `rows` of the micro-batch: draws where each of its
  /// batch_size rows starts, randint(size - T) a row, and copies those that are `rows`. All ranks
  /// draw the same from equal generators. A count of 0 passes over a micro-batch of other ranks.
  /// @pre rows within [0, batch_size); batch.x and batch.y have rows.count * T elements
  void draw(Split split, Generator& generator, std::int64_t batch_size, BatchRows rows,
            Batch batch) const;

 private:
  std::span<const std::int32_t> tokens(Split split) const;

  std::string name_;
  CharTokenizer tokenizer_;
  std::int64_t block_size_;
  std::vector<std::int32_t> tokens_;
  std::size_t train_size_;
};

/// The text that the options ask for: `text`, or `dataset`: "tales" from the grammar inside the
/// binary; "shakespeare_char" from the file that the environment variable NANOFSDP_SHAKESPEARE
/// names, else from data/shakespeare_char/input.txt.
/// @throws UsageError with the remedy if the file cannot be read, and as Dataset
Dataset load_dataset(const TrainOptions& options);

}  // namespace nanofsdp::train
