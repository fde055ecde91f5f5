#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The places of every parameter of one FSDP unit: in the memory of whole parameters, and in
/// each rank's shard.
///
/// Each of W ranks owns one shard, and all shards have s elements. Three layouts say what is in it.
///
/// **flat** is FSDP1's. A unit's parameters are flattened, laid end to end and padded to a multiple
/// of W ("FlatParameter", FSDP paper, arXiv 2304.11277, section 3.2.2). Rank r owns one contiguous
/// piece of that. Lessons 07 and 08 teach this layout.
///
///     whole   = [ p0 | p1 | ... | pk | padding ]     W * s elements
///     shard r = whole[r * s, (r + 1) * s)            s = ceil(n / W),  n = the end of pk
///
/// **per_parameter** is FSDP2's. A parameter of d rows (its first dimension) is cut as torch.chunk
/// does: c = ceil(d / W) rows for each rank, until there are no more. The last rank that has rows
/// may have fewer, and the ranks after it have none. A scalar is one row. Lesson 23 teaches this
/// layout.
///
///     whole   = [ p0 | p1 | ... | pk | padding ]
///     shard r = [ p0[r * c0 .. (r + 1) * c0) | p1[r * c1 .. (r + 1) * c1) | ... | padding ]
///     s       = sum over parameters of c * (elements of one of its rows)
///
/// **row_aligned** is that of Megatron-FSDP v2. (veScale's RaggedShard has any blocks instead of
/// rows.) Rank r owns [r * s, (r + 1) * s) of the whole, and every cut that falls into a parameter
/// falls between two of its rows. For this, gaps stand before some parameters, and later parameters
/// fill the gaps. If that is not enough, s is larger than in the flat layout. Lesson 23 teaches
/// this layout too.
///
/// A collective sends a *row*: all shards end to end, W * s elements. In the layouts flat and
/// row_aligned the row is the memory of the whole parameters: nothing is copied. In the flat
/// layout, fewer than W elements are padding. In the two other layouts a piece is a tensor of its
/// own, [rows, ...], with a place in the whole tensor. The layout per_parameter costs copies: a
/// parameter lies in W pieces of the row, so it is copied out of the row after a gather, and its
/// gradient is copied into the row before a reduction. If a parameter has only one row,
/// (W - 1) / W of its place in the row is padding.
///
/// With an alignment a > 1, each parameter starts at a multiple of a, in the whole and in the
/// shard, and s is rounded up to a multiple. Vector loads and the 16-byte rule of PyTorch's flat
/// parameter need that. The gaps are padding.
///
/// This file only computes numbers. It owns no memory and uses no communicator, so every claim
/// about sharding can be tested without them. sharded_parameters.h has the memory.
///
/// All offsets and sizes count elements, not bytes.

/// The three layouts. `flat` is FSDP1's: a unit is one row of elements. `per_parameter` is FSDP2's:
/// each parameter is cut along its first dimension. In `row_aligned` a unit is one row of elements,
/// and its cuts fall between rows of parameters.
enum class LayoutKind { flat, per_parameter, row_aligned };

/// A half-open range of elements [begin, end).
struct Range {
  std::int64_t begin = 0;  ///< the first element
  std::int64_t end = 0;    ///< the element behind the last one

  constexpr std::int64_t size() const { return end - begin; }  ///< number of elements
  constexpr bool empty() const { return begin == end; }        ///< whether it has no element
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// The name and shape of a parameter, as the model declares it.
struct ParameterSpec {
  std::string name;  ///< path in the module tree, e.g. "h.0.attn.c_attn.weight"
  Shape shape;       ///< row-major

  std::int64_t numel() const { return shape.numel(); }  ///< number of elements; a scalar has one
  /// The size of the first dimension. A scalar is one row.
  std::int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  /// The elements of one row. It is 0 if there are no rows.
  std::int64_t row_numel() const { return rows() == 0 ? 0 : numel() / rows(); }
};

/// The part of a parameter that lies in a shard, with both of its places. It is empty if no part
/// lies there.
struct Piece {
  Range in_shard;      ///< its place in the shard, which the optimizer uses
  Range in_parameter;  ///< its place in the parameter, which a checkpoint uses; same size
};

/// The layout of one unit over W ranks. It never changes, and equal inputs give equal layouts on
/// every rank.
class Layout {
 public:
  /// @param parameters in the order in which the module tree names them; may be empty
  /// @param world_size W >= 1
  /// @param alignment in elements, a >= 1
  /// @throws Error if W < 1 or a < 1
  Layout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment = 1,
         LayoutKind kind = LayoutKind::flat);

  LayoutKind kind() const { return kind_; }       ///< flat, per_parameter or row_aligned
  int world_size() const { return world_size_; }  ///< W
  /// The parameters, in the order in which they were given.
  std::span<const ParameterSpec> parameters() const { return parameters_; }

  std::int64_t total_numel() const { return total_numel_; }                 ///< without padding
  std::int64_t padded_numel() const { return shard_numel_ * world_size_; }  ///< W * s
  std::int64_t shard_numel() const { return shard_numel_; }                 ///< s
  /// Padding of the row.
  std::int64_t padding_numel() const { return padded_numel() - total_numel_; }
  /// The elements of the memory of whole parameters, with padding: a multiple of W.
  std::int64_t whole_numel() const { return whole_numel_; }

  /// Elements of the whole that parameter `i` occupies.
  Range in_whole(std::size_t i) const { return in_whole_[i]; }
  /// Elements of the row that `rank` owns, padding included.
  Range shard_of(int rank) const { return {rank * shard_numel_, (rank + 1) * shard_numel_}; }

  /// The piece of parameter `i` that `rank` owns. Three cases: all of it, a part, none.
  /// @pre i < parameters().size() and 0 <= rank < world_size()
  Piece piece(std::size_t i, int rank) const;

  /// The elements of parameter `i` for which every shard has room. In the layouts flat and
  /// row_aligned this is the whole shard. In the layout per_parameter it is c rows, and the last
  /// pieces may be shorter.
  std::int64_t chunk(std::size_t i) const { return chunks_[i].size(); }
  /// The place of parameter `i` in the elements that are cut into chunks. The layout per_parameter
  /// cuts each parameter by itself, and the others cut the whole.
  Range in_cut(std::size_t i) const {
    return kind_ == LayoutKind::per_parameter ? Range{0, in_whole_[i].size()} : in_whole_[i];
  }

 private:
  bool place_rows(std::int64_t alignment);

  std::vector<ParameterSpec> parameters_;
  LayoutKind kind_;
  int world_size_;
  std::vector<Range> in_whole_;  // the range of each parameter
  std::vector<Range> chunks_;    // the place in a shard that is reserved for each parameter
  std::int64_t total_numel_ = 0, whole_numel_ = 0, shard_numel_ = 0;
};

/// The smallest multiple that is not less than n.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace nanofsdp::fsdp
