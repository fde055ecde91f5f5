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
/// Neighbouring ranks shard a model together. Take 4 ranks in groups of 2. Then {0, 1} and {2, 3}
/// are shard groups, which gather and reduce-scatter. {0, 2} and {1, 3} are replicate groups: their
/// ranks have the same shard, and all-reduce its gradients. Usually there is one shard group of all
/// ranks, and nothing is replicated.
///
/// Between forward and backward, parameters may be sharded over fewer ranks. In a shard group of 8,
/// {0, 1, 2, 3} and {4, 5, 6, 7} may be post-forward groups, and each has all of a unit (PyTorch's
/// `reshard_after_forward=4`; hpZ of ZeRO++, arXiv 2306.10209). If such a group is a node, backward
/// gathers only inside nodes.
///
/// All-gathers of parameters and reductions of gradients are issued on two streams. One can
/// overtake the other, and not on all ranks at the same moment. In one communicator, this would
/// pair the wrong calls. So each stream has a communicator over the same ranks, and the main thread
/// has a third.

/// The size of a shard group, in a run of `ranks`.
/// @param shard_size the size that was asked for; 0: all ranks
/// @throws UsageError if it does not divide `ranks`
int shard_group_size(int shard_size, int ranks);
/// The size of a post-forward group, in a shard group of `ranks`. It is 0 if both are the same.
/// @param size the size that was asked for; 0: all ranks
/// @throws UsageError if it does not divide `ranks`
int post_forward_group_size(int size, int ranks);

/// One rank's place in the grid. Here 8 ranks are 2 replicas of a model, and 4 ranks shard each:
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
  /// Splits `world`. Collective over its ranks. The mesh does not count the traffic that `world`
  /// has had before.
  /// @param shard_size the size of a shard group; 0: all ranks
  /// @param post_forward_size the size of a post-forward group; 0: that of the shard group
  /// @throws UsageError if shard_size does not divide the number of ranks, or if post_forward_size
  ///         does not divide the size of a shard group
  explicit Mesh(std::unique_ptr<Communicator> world, int shard_size = 0, int post_forward_size = 0);

  /// Makes a mesh from communicators: that of the world, those of the shard group for all-gathers
  /// and for reductions, that of the replicate group and, if there is one, that of the post-forward
  /// group.
  explicit Mesh(std::vector<std::unique_ptr<Communicator>> groups) : groups_(std::move(groups)) {}

  int rank() const { return groups_[kWorld]->rank(); }         ///< this rank, among all
  int size() const { return groups_[kWorld]->size(); }         ///< the number of all ranks
  int shard_rank() const { return groups_[kGather]->rank(); }  ///< this rank, in its shard group
  int shard_size() const { return groups_[kGather]->size(); }  ///< the size of a shard group
  int replicas() const { return size() / shard_size(); }  ///< shard groups, each with a whole model

  Communicator& world() { return *groups_[kWorld]; }    ///< for the compute stream: norms, control
  Communicator& gather() { return *groups_[kGather]; }  ///< shard group, for all-gathers
  Communicator& reduce() { return *groups_[kReduce]; }  ///< shard group, for reductions
  Communicator& replicate() { return *groups_[kReplicate]; }  ///< the same shard, for reductions
  /// The post-forward group, for all-gathers. It is null if that is the shard group.
  Communicator* post_forward() {
    return groups_.size() > kPostForward ? groups_[kPostForward].get() : nullptr;
  }

  /// The traffic of all communicators since the last reset.
  Traffic traffic() const;
  /// The traffic of the replicate group, which leaves the shard group.
  Traffic traffic_across() const { return groups_[kReplicate]->traffic(); }
  void reset_traffic();  ///< sets all counts to 0

  /// Aborts all communicators. Call it when one fails, so that no stream waits for a timeout.
  void abort(const std::string& reason) noexcept;

 private:
  enum Group : std::size_t { kWorld, kGather, kReduce, kReplicate, kPostForward };

  // In the order of their names; the last one may be missing.
  std::vector<std::unique_ptr<Communicator>> groups_;
};

}  // namespace nanofsdp::comm
