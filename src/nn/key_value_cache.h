#pragma once

#include <cstdint>
#include <map>

#include "base/buffer.h"
#include "base/context.h"

namespace nanofsdp::nn {

/// @file
/// @brief What earlier positions of a text have left for later ones to ask: decoding with a cache.
///
/// A position's keys and values depend on no later position. So a text that grows by one token
/// needs one position computed, not all of them again:
///
///     without      layer([a b c d])  ->  layer([a b c d e])     the same four once more
///     with a cache layer([a b c d])  ->  layer([e]), which asks the cache about a b c d
///
/// Each attention layer has a row a position, its query, key and value side by side, as the
/// operator reads them; the query is not needed again, but its third of the memory spares a second
/// layout. One text at a time.

/// The rows of one text, for every attention layer of one model. It is filled by the passes that
/// follow Tape::begin_decoding().
class KeyValueCache {
 public:
  /// @param capacity positions: the model's block_size
  /// @param context outlives this object
  KeyValueCache(Context& context, std::int64_t capacity) : context_(context), capacity_(capacity) {}

  std::int64_t capacity() const { return capacity_; }  ///< positions that fit

  /// Positions held, between two passes: all layers hold the same.
  std::int64_t length() const { return layers_.empty() ? 0 : layers_.begin()->second.length; }

  /// Adds the rows of the next positions and returns those of all so far, [1, length, 3C].
  /// @param layer whose they are; any address of its own will do
  /// @param qkv [1, n, 3C]
  /// @throws Error if they are of several texts, or more than fit
  Tensor append(Stream& stream, const void* layer, Tensor qkv);

  /// Forgets all positions: the text has changed, or moved on by a token, which moves every
  /// position.
  void clear() {
    for (auto& [name, layer] : layers_) layer.length = 0;
  }

 private:
  struct Layer {
    Buffer rows;
    std::int64_t length = 0;
  };

  Context& context_;
  std::int64_t capacity_;
  std::map<const void*, Layer> layers_;
};

}  // namespace nanofsdp::nn
