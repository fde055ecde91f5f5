#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nanofsdp::fsdp {

/// @file
/// @brief Where every parameter of one FSDP unit lies: in the memory of whole parameters, and in
/// each rank's shard.
///
/// Each rank owns one shard, and all shards are equally long. Two layouts say what is in it:
///
///     flat:            whole   = [ p0 | p1 | ... | pk | padding ]           FSDP1
///                      shard r = whole[r * s, (r + 1) * s)                  (flat_layout.h)
///
///     per_parameter:   whole   = [ p0 | p1 | ... | pk | padding ]           FSDP2
///                      shard r = [ rows of p0 | rows of p1 | ... | padding ]
///                                                                 (per_parameter_layout.h)
///
/// What travels is the *row*: all shards end to end, W * s elements. In the flat layout the row is
/// the memory of the whole parameters. In the other one, a parameter lies in W pieces of the row,
/// so it is copied out of it after a gather, and its gradient into it before a reduction.
///
/// With an alignment a > 1, each parameter starts at a multiple of a, in the whole and in the
/// shard, and s is rounded up to one: vector loads and the 16-byte rule of PyTorch's flat parameter
/// want that. The gaps are padding.
///
/// These files are arithmetic only. They own no memory and know no communicator, so every claim
/// about sharding can be tested without either. Storage lives in sharded_parameters.h.
///
/// All offsets and sizes count elements, not bytes.

/// Which layout.
enum class LayoutKind {
  flat,          ///< FSDP1's: a unit is one row of elements
  per_parameter  ///< FSDP2's: each parameter is cut along its first dimension
};

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
class Layout {
 public:
  virtual ~Layout() = default;

  int world_size() const { return world_size_; }  ///< W
  /// The parameters, in their order in the row.
  std::span<const ParameterSpec> parameters() const { return parameters_; }

  std::int64_t total_numel() const { return total_numel_; }                     ///< without padding
  std::int64_t padded_numel() const { return shard_numel_ * world_size_; }      ///< W * s
  std::int64_t shard_numel() const { return shard_numel_; }                     ///< s
  std::int64_t padding_numel() const { return padded_numel() - total_numel_; }  ///< of the row
  /// Of the memory of whole parameters: a multiple of W, padding included.
  std::int64_t whole_numel() const { return whole_numel_; }

  /// Elements of the whole that parameter `i` occupies.
  Range in_whole(std::size_t i) const { return in_whole_[i]; }

  /// The piece of parameter `i` that `rank` owns. Three cases: all of it, a part, none.
  /// @pre i < parameters().size() and 0 <= rank < world_size()
  virtual Piece piece(std::size_t i, int rank) const = 0;

  /// Of a layout that copies: elements of parameter `i` in each rank's piece of it, the last ones'
  /// excepted, which may be shorter. 0: the row is the whole, and nothing is copied.
  virtual std::int64_t chunk(std::size_t /*i*/) const { return 0; }

 protected:
  /// Lays the parameters end to end in the whole.
  /// @throws Error if W < 1, a < 1, or a shape has a negative dimension
  Layout(std::vector<ParameterSpec> parameters, int world_size, std::int64_t alignment);

  std::int64_t shard_numel_ = 0;  ///< s, which each layout says
  std::int64_t whole_numel_ = 0;  ///< of the whole, with padding: as in the flat layout

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<Range> in_whole_;  // one a parameter
  std::int64_t total_numel_ = 0;
  int world_size_ = 1;
};

/// A layout of either kind. The arguments are those of FlatLayout.
std::unique_ptr<const Layout> make_layout(LayoutKind kind, std::vector<ParameterSpec> parameters,
                                          int world_size, std::int64_t alignment);

/// The smallest multiple that is not less than n.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace nanofsdp::fsdp
