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
/// those of files may be GPT-2's (bpe_tokenizer.h). Which rows a rank takes says batch_plan.h.

/// Tokens to train on, and tokens to validate with.
enum class Split { train, val };

/// Where a micro-batch goes, each [rows, T] row-major: y is x shifted by one token.
struct Batch {
  std::span<std::int32_t> x;  ///< tokens, the model's input
  std::span<std::int32_t> y;  ///< targets
};

/// Tokens in two splits. Immutable: ranks that are threads may share one.
class Dataset {
 public:
  /// A text, as nanoGPT splits it: the first int(0.9 n) characters to train on, the rest to
  /// validate with.
  /// @param name stands for the text in messages
  /// @throws UsageError if the text is empty, not UTF-8, of more than 65,536 different characters,
  ///         or a split has not block_size + 1 tokens
  Dataset(std::string_view text, std::string name, std::int64_t block_size);

  /// Files of tokens, two bytes each, little-endian: nanoGPT's train.bin and val.bin. They stay
  /// where they are: what is not drawn is not read.
  /// @throws UsageError if a file is not of whole tokens, or has not block_size + 1 of them
  Dataset(MappedFile train, MappedFile val, std::shared_ptr<const Tokenizer> tokenizer,
          std::string name, std::int64_t block_size);
  Dataset(Dataset&&) = default;  // no copies: a text's tokens are shown where they lie

  const std::string& name() const { return name_; }           ///< as messages name it
  const Tokenizer& tokenizer() const { return *tokenizer_; }  ///< of the tokens in both splits
  std::int64_t block_size() const { return block_size_; }     ///< T: tokens of a row
  std::int64_t size(Split split) const;                       ///< tokens

  /// Of its tokens, to compare with other ranks'; where they are many, of some from all over.
  std::uint64_t fingerprint() const;

  /// nanoGPT's get_batch, for the rank that owns `rows` of the micro-batch: draws where each of its
  /// batch_size rows starts, randint(size - T) a row, and copies those that are `rows`. All ranks
  /// draw the same from equal generators. A count of 0 passes over a micro-batch of other ranks.
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

/// Which data, and the vocabulary of the model that is to read it.
struct TextOptions {
  std::string dataset = "tales";         ///< what load_dataset() knows by name
  std::string text;                      ///< a UTF-8 file instead; empty: `dataset`
  std::int64_t vocab_size = 0;           ///< of a model that is there already; 0: none is
  std::vector<std::string> pieces = {};  ///< what that model's tokens say; empty: unknown
  std::string chars{};                   ///< the characters that are its tokens; empty: it has none
};

/// The data that the options ask for: the file `text`, or `dataset`:
///
///     tales             from the grammar inside the binary
///     shakespeare_char  the text that the environment variable NANOFSDP_SHAKESPEARE names, else
///                       data/shakespeare_char/input.txt
///     any other name    data/NAME/train.bin and val.bin, as nanoGPT's prepare.py writes them
///
/// Files of tokens are GPT-2's unless meta.json lies beside them: nanoGPT's meta.pkl as JSON, with
/// vocab_size and, for characters, stoi. What GPT-2's tokens say is in vocab.json, if it lies there
/// too, else with the model. Their vocabulary is that of a model which is pretrained or resumed,
/// else nanoGPT's 50304.
/// @throws UsageError with the remedy if a file cannot be read, and as Dataset
/// @param block_size tokens of a row
Dataset load_dataset(const TextOptions& options, std::int64_t block_size = 64);

}  // namespace nanofsdp::data
