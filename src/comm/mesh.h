#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief The ranks as a grid, shard group x replicate group, and a communicator for each stream.
///
/// Ranks next to each other share a model: of 4 ranks in groups of 2, {0, 1} and {2, 3} are shard
/// groups, which gather and reduce-scatter; {0, 2} and {1, 3} hold the same shard and are replicate
/// groups, which all-reduce it. One group of all is the usual case; then nothing is replicated.
///
/// From forward to backward, parameters may lie sharded over fewer ranks: of a shard group of 8,
/// {0, 1, 2, 3} and {4, 5, 6, 7} may be post-forward groups, each with all of a unit (PyTorch's
/// `reshard_after_forward=4`; hpZ of ZeRO++, arXiv 2306.10209). Where a group is a node, backward
/// gathers inside nodes alone.
///
/// All-gathers of parameters and reductions of gradients are issued on two streams and may overtake
/// each other, on one rank sooner than on another; within one communicator that would pair the
/// wrong calls. So each stream has a communicator over the same ranks, and the main thread a third.

/// Ranks of a shard group, of a run of `ranks`.
/// @param shard_size as asked for; 0: all
/// @throws UsageError if it does not divide them
int shard_group_size(int shard_size, int ranks);
/// Ranks of a post-forward group, of a shard group of `ranks`; 0: none is needed, as it is the
/// same.
/// @param size as asked for; 0: all
/// @throws UsageError if it does not divide them
int post_forward_group_size(int size, int ranks);

/// One rank's place in the grid. 8 ranks as 2 replicas of a model that 4 ranks shard:
///
///     comm::run_ranks({.ranks = 8}, [](Context& context, auto world) {
///       comm::Mesh mesh(std::move(world), /*shard_size=*/4);
///       Model model;
///       auto sharded = fsdp::fully_shard(
///           context, model, mesh, {.strategy = fsdp::ShardingStrategy::hybrid_shard});
///       ...
///     });
class Mesh {
 public:
  /// Splits `world`. Collective over its ranks. Traffic counts from here on: what the world has
  /// moved before is not the mesh's.
  /// @param shard_size ranks of a shard group; 0: all
  /// @param post_forward_size of a post-forward group; 0: all of the shard group
  /// @throws UsageError if shard_size does not divide the number of ranks, or post_forward_size
  ///         does not divide that of a shard group
  explicit Mesh(std::unique_ptr<Communicator> world, int shard_size = 0, int post_forward_size = 0);

  /// Of communicators that are there already: the world's, those of the shard group for all-gathers
  /// and for reductions, the replicate group's and, if there is one, the post-forward group's.
  explicit Mesh(std::vector<std::unique_ptr<Communicator>> groups) : groups_(std::move(groups)) {}

  int rank() const { return groups_[kWorld]->rank(); }         ///< among all ranks
  int size() const { return groups_[kWorld]->size(); }         ///< of the whole mesh, in ranks
  int shard_rank() const { return groups_[kGather]->rank(); }  ///< within the shard group
  int shard_size() const { return groups_[kGather]->size(); }  ///< ranks of a shard group
  int replicas() const { return size() / shard_size(); }  ///< shard groups, each with a whole model

  Communicator& world() { return *groups_[kWorld]; }    ///< for the compute stream: norms, control
  Communicator& gather() { return *groups_[kGather]; }  ///< shard group, for all-gathers
  Communicator& reduce() { return *groups_[kReduce]; }  ///< shard group, for reductions
  Communicator& replicate() { return *groups_[kReplicate]; }  ///< the same shard, for reductions
  /// Post-forward group, for all-gathers. Null if that is the shard group.
  Communicator* post_forward() {
    return has_post_forward() ? groups_[kPostForward].get() : nullptr;
  }

  /// Of all together, since the last reset.
  Traffic traffic() const;
  /// Of the replicate group: what leaves the shard group.
  Traffic traffic_across() const { return groups_[kReplicate]->traffic(); }
  /// Of the post-forward group, if there is one.
  Traffic traffic_near() const {
    return has_post_forward() ? groups_[kPostForward]->traffic() : Traffic();
  }
  void reset_traffic();  ///< all counts to 0

  /// Aborts all of them: call it when one fails, so that no stream waits for the others' timeout.
  void abort(const std::string& reason) noexcept;

 private:
  enum Group : std::size_t { kWorld, kGather, kReduce, kReplicate, kPostForward };
  bool has_post_forward() const { return groups_.size() > kPostForward; }

  std::vector<std::unique_ptr<Communicator>> groups_;  // in this order; the last if there is one
};

}  // namespace nanofsdp::comm
