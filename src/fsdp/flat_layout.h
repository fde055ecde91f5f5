#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nanofsdp::fsdp {

/// @file
/// @brief Where every parameter of one FSDP unit lies: in the flat parameter, and in each rank's
/// shard.
///
/// A unit's parameters are flattened, laid end to end and padded to a multiple of the world size W
/// ("FlatParameter", FSDP paper, arXiv 2304.11277, section 3.2.2). Rank r then owns one contiguous
/// piece of equal length, its shard:
///
///     flat    = [ p0 | p1 | ... | pk | padding ]        padded_numel = W * s
///     shard r = flat[r * s, (r + 1) * s)                s = ceil(n / W),  n = the end of pk
///
/// With an alignment a > 1, each parameter starts at a multiple of a, and s is rounded up to one:
/// vector loads and the 16-byte rule of PyTorch's flat parameter want that. The gaps are padding.
///
/// This file is arithmetic only. It owns no memory and knows no communicator, so every claim about
/// sharding can be tested without either. Storage lives in sharded_parameters.h.
///
/// All offsets and sizes count elements, not bytes. Taught in lessons 07 and 08.

/// Half-open range of elements [begin, end).
struct Range {
  std::int64_t begin = 0;  ///< the first element
  std::int64_t end = 0;    ///< the one behind the last

  constexpr std::int64_t size() const { return end - begin; }  ///< elements
  constexpr bool empty() const { return begin == end; }        ///< no element
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// Name and shape of a parameter, as the model declares it.
struct ParameterSpec {
  std::string name;                 ///< path in the module tree, e.g. "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< row-major; an empty shape is a scalar

  std::int64_t numel() const;  ///< elements; a scalar has one
};

/// The part of a parameter that lies in a shard, counted twice. Empty if none does.
struct Piece {
  Range in_shard;      ///< from the start of the shard, where the optimizer looks
  Range in_parameter;  ///< from the start of the parameter, where a checkpoint does; same size
};

/// The layout of one unit over W ranks. Immutable; equal inputs give equal layouts on every rank.
class FlatLayout {
 public:
  /// @param parameters in the order in which the module tree names them; may be empty
  /// @param world_size W >= 1
  /// @param alignment in elements, a >= 1
  /// @throws Error if W < 1, a < 1, or a shape has a negative dimension
  FlatLayout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment = 1);

  int world_size() const { return world_size_; }  ///< W
  /// The parameters, in their order in the row.
  std::span<const ParameterSpec> parameters() const { return parameters_; }

  std::int64_t total_numel() const { return total_numel_; }                     ///< without padding
  std::int64_t padded_numel() const { return shard_numel_ * world_size_; }      ///< W * s
  std::int64_t shard_numel() const { return shard_numel_; }                     ///< s
  std::int64_t padding_numel() const { return padded_numel() - total_numel_; }  ///< < W if a = 1

  /// Elements of the flat parameter that parameter `i` occupies.
  Range in_flat(std::size_t i) const { return in_flat_[i]; }

  /// All of the flat parameter, padding included.
  Range whole() const { return {0, padded_numel()}; }

  /// Elements of the flat parameter that `rank` owns, padding included.
  /// @pre 0 <= rank < world_size()
  Range shard_of(int rank) const;

  /// The piece of parameter `i` that `rank` owns. Three cases: all of it, a part, none.
  /// @pre i < parameters().size() and 0 <= rank < world_size()
  Piece piece(std::size_t i, int rank) const { return piece(i, shard_of(rank)); }

  /// The same for any range of the flat parameter in place of a rank's shard.
  Piece piece(std::size_t i, Range owned) const;

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<Range> in_flat_;  // one a parameter
  std::int64_t total_numel_ = 0;
  std::int64_t shard_numel_ = 0;
  int world_size_ = 1;
};

}  // namespace nanofsdp::fsdp
