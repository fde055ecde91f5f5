#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "data/batch_plan.h"
#include "data/tokenizer.h"

namespace nanofsdp::data {

/// @file
/// @brief The room `data`: from a text to the batches of a rank. A Dataset holds tokens, and draws
/// random batches of them.
///
/// Comes in: a text, or files of tokens as nanoGPT's prepare.py writes them. Goes out: rows of
/// int32 tokens, each with its targets. The tokens of a text are its characters (tokenizer.h);
/// those of files may be GPT-2's (bpe_tokenizer.h). batch_plan.h says which rows a rank takes.

/// Tokens to train on, and tokens to validate with.
enum class Split { train, val };

/// The tokens of a micro-batch. Both are [rows, T], row-major; y is x shifted by one token.
struct Batch {
  std::span<std::int32_t> x;  ///< tokens, the model's input
  std::span<std::int32_t> y;  ///< targets
};

/// Tokens in two splits. A Dataset does not change, so ranks that are threads may share one.
class Dataset {
 public:
  /// Splits a text as nanoGPT does: the first int(0.9 n) characters are for training, the rest for
  /// validation.
  /// @param name stands for the text in messages
  /// @throws UsageError if the text is empty, not UTF-8, of more than 65,536 different characters,
  ///   or a split has fewer than block_size + 1 tokens
  Dataset(std::string_view text, std::string name, std::int64_t block_size);

  /// Takes files of tokens with two bytes each, little-endian: nanoGPT's train.bin and val.bin.
  /// They are mapped: only the tokens that are drawn are read.
  /// @throws UsageError if a file is not of whole tokens, or has fewer than block_size + 1
  Dataset(MappedFile train, MappedFile val, std::shared_ptr<const Tokenizer> tokenizer,
          std::string name, std::int64_t block_size);
  Dataset(Dataset&&) = default;  // a copy would show tokens of the other object

  const std::string& name() const { return name_; }           ///< the name of the data in messages
  const Tokenizer& tokenizer() const { return *tokenizer_; }  ///< the tokenizer of both splits
  std::int64_t block_size() const { return block_size_; }     ///< T: tokens of a row
  std::int64_t size(Split split) const;                       ///< number of tokens of the split

  /// A fingerprint of the tokens, to be compared with other ranks'. If there are many tokens, it
  /// covers some of them, from all over the text.
  std::uint64_t fingerprint() const;

  /// nanoGPT's get_batch, for the rank that owns `rows` of the micro-batch. It draws where each of
  /// the batch_size rows starts, randint(size - T) for each row, and copies only `rows`. All ranks
  /// draw the same numbers from equal generators. A count of 0 skips a micro-batch of other ranks.
  /// @pre rows within [0, batch_size); batch.x and batch.y have rows.count * T elements
  /// @throws UsageError if a token of a file is not of the vocabulary
  void draw(Split split, Generator& generator, std::int64_t batch_size, BatchRows rows,
            Batch batch) const;

 private:
  using Tokens = std::span<const std::uint16_t>;
  Tokens tokens(Split split) const { return split == Split::train ? train_ : val_; }
  void require_known(Tokens row, Split split) const;

  std::string name_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t block_size_;
  std::vector<std::uint16_t> text_;  // the tokens of a text, or
  MappedFile train_file_, val_file_;
  Tokens train_, val_;
};

/// Which data to load, and the vocabulary of the model that will read it.
struct TextOptions {
  std::string dataset = "tales";  ///< a name that load_dataset() knows
  std::string text;               ///< a UTF-8 file instead; empty: `dataset`
  std::int64_t vocab_size = 0;    ///< vocabulary of a model that exists already; 0: there is none
  std::vector<std::string> pieces = {};  ///< the texts of that model's tokens; empty: unknown
  std::string chars{};  ///< characters of that model; empty: its tokens are not characters
};

/// Loads the data that the options ask for: the file `text`, or `dataset`, which is one of
///
///     tales             from the grammar inside the binary
///     shakespeare_char  the text that the environment variable NANOFSDP_SHAKESPEARE names, else
///                       data/shakespeare_char/input.txt
///     any other name    data/NAME/train.bin and val.bin, as nanoGPT's prepare.py writes them
///
/// Files of tokens are GPT-2's unless meta.json lies beside them: nanoGPT's meta.pkl as JSON, with
/// vocab_size and, for characters, stoi. The texts of GPT-2's tokens come from vocab.json if it
/// lies beside them, else from the model. The vocabulary of GPT-2's tokens has the size of a model
/// that is pretrained or resumed, else nanoGPT's 50304.
/// @throws UsageError with the remedy if a file cannot be read, and as Dataset
/// @param block_size tokens of a row
Dataset load_dataset(const TextOptions& options, std::int64_t block_size = 64);

}  // namespace nanofsdp::data
