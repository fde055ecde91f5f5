#pragma once

#include <cstdint>
#include <map>

#include "base/context.h"

namespace nanofsdp::nn {

/// @file
/// @brief Decoding with a cache: the keys and values of earlier positions are kept for later ones.
///
/// A position's keys and values depend on no later position. So a text that grows by one token
/// needs one position computed, not all of them again:
///
///     without      layer([a b c d])  ->  layer([a b c d e])     the same four once more
///     with a cache layer([a b c d])  ->  layer([e]), which asks the cache about a b c d
///
/// Each attention layer has a row for each position: its query, key and value side by side, as the
/// operator reads them. The query is not needed again; but then a second layout would be needed. A
/// cache holds one text.

/// The rows of one text, for every attention layer of one model. It is filled by the passes that
/// follow Tape::begin_decoding(). A pass that fails midway adds no position: the next pass writes
/// over its rows.
class KeyValueCache {
 public:
  /// @param capacity how many positions fit: the model's block_size
  /// @param context must outlive this object
  KeyValueCache(Context& context, std::int64_t capacity) : context_(context), capacity_(capacity) {}

  std::int64_t capacity() const { return capacity_; }  ///< positions that fit

  std::int64_t length() const { return length_; }  ///< positions that it holds

  /// Writes the rows of the n positions after those that it holds.
  /// @param layer stands for the layer to which the rows belong: any address that only it uses
  /// @param qkv [1, n, 3C]
  /// @returns the rows of all positions, [1, length + n, 3C]
  /// @throws Error if they are of several texts, or more than fit, or if a row has another size
  ///   than the layer's rows before
  Tensor append(Stream& stream, const void* layer, Tensor qkv);

  /// Counts the next n positions as held. The model calls this once in a pass, after all
  /// layers have appended their rows.
  void advance(std::int64_t n) { length_ += n; }

  /// Forgets all positions. Call it if the text has changed, or if its first token was dropped,
  /// which moves every position.
  void clear() { length_ = 0; }

 private:
  Context& context_;
  std::int64_t capacity_, length_ = 0;
  std::map<const void*, Buffer> layers_;  // the rows of each layer
};

}  // namespace nanofsdp::nn
