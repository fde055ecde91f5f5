#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief The ranks as a grid, replicas x shards x tensor, and a communicator for each stream.
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
/// A model may divide each layer over a **tensor group** (tensor parallelism: Megatron-LM, arXiv
/// 1909.08053). The ranks of a tensor group get the same tokens, and each has a part of the model.
/// They are neighbours. Take 8 ranks in tensor groups of 2: the ranks {0, 2, 4, 6} have the first
/// part of the model, {1, 3, 5, 7} have the second part. Each of these two is a world of its own,
/// which has the shard groups and the replicate groups that this page describes. The model sends
/// what its layers need over tensor(). These rules hold for what the group must share:
///
/// - **Parameters.** Each rank may have a part of a parameter; then Parameter::part says which, and
///   there are as many parts as ranks. All other parameters are replicated: they have the same
///   values on all ranks of a tensor group.
/// - **Gradients.** Backward must leave equal gradients of a replicated parameter on all ranks of a
///   tensor group. FSDP does not send them. If the backward of a layer has only a part of such a
///   gradient, the layer adds the parts up over tensor().
/// - **Dropout** between layers must drop the same elements on all ranks of a tensor group. Give
///   Tape::begin() a key for that: without one, each rank has its own masks.
/// - **The norm** counts each element of the whole model once (fsdp/grad_norm.h).
/// - **The loss** is the same on all ranks of a tensor group. A sum over world() counts it once.
///
/// All-gathers of parameters and reductions of gradients are issued on two streams. One can
/// overtake the other, and not on all ranks at the same moment. In one communicator, this would
/// pair the wrong calls. So each stream has a communicator over the same ranks, and the main thread
/// has a third.

/// The size of groups of equal size, in a run or in a larger group of `ranks`.
/// @param size the size that was asked for; 0: all ranks
/// @param what the name of this size, for the error
/// @throws UsageError if it does not divide `ranks`
int group_size(int size, int ranks, const char* what = "shard_size");

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
  /// @param tensor_size the size of a tensor group; 0: all ranks
  /// @throws UsageError if tensor_size does not divide the number of ranks, if shard_size does not
  ///         divide the ranks that have one part of the model, or if post_forward_size does not
  ///         divide the size of a shard group
  explicit Mesh(std::unique_ptr<Communicator> world, int shard_size = 0, int post_forward_size = 0,
                int tensor_size = 1);

  /// Makes a mesh from communicators: those of the tensor group and of the world, those of the
  /// shard group for all-gathers and for reductions, that of the replicate group and, if there is
  /// one, that of the post-forward group.
  explicit Mesh(std::vector<std::unique_ptr<Communicator>> groups) : groups_(std::move(groups)) {}

  int rank() const { return groups_[kWorld]->rank(); }         ///< this rank, in world()
  int size() const { return groups_[kWorld]->size(); }         ///< the number of ranks of world()
  int shard_size() const { return groups_[kGather]->size(); }  ///< the size of a shard group
  int replicas() const { return size() / shard_size(); }  ///< shard groups, each with a whole model

  /// The ranks that have the same part of the model: all ranks, unless there are tensor groups. For
  /// the compute stream: norms, control.
  Communicator& world() { return *groups_[kWorld]; }
  Communicator& gather() { return *groups_[kGather]; }        ///< shard group, for all-gathers
  Communicator& reduce() { return *groups_[kReduce]; }        ///< shard group, for reductions
  Communicator& replicate() { return *groups_[kReplicate]; }  ///< the same shard, for reductions
  /// The post-forward group, for all-gathers. It is null if that is the shard group.
  Communicator* post_forward() {
    return groups_.size() > kPostForward ? groups_[kPostForward].get() : nullptr;
  }
  /// The tensor group, for the compute stream: the sums of layers, and norms. One rank if there are
  /// none.
  Communicator& tensor() { return *groups_[kTensor]; }

  /// The traffic of all communicators since the last reset.
  Traffic traffic() const;
  /// The traffic of the replicate group, which leaves the shard group.
  Traffic traffic_across() const { return groups_[kReplicate]->traffic(); }
  void reset_traffic();  ///< sets all counts to 0

  /// Aborts all communicators. Call it when one fails, so that no stream waits for a timeout.
  void abort(const std::string& reason) noexcept;

 private:
  enum Group : std::size_t { kTensor, kWorld, kGather, kReduce, kReplicate, kPostForward };

  // In the order of their names; the last one may be missing.
  std::vector<std::unique_ptr<Communicator>> groups_;
};

}  // namespace nanofsdp::comm
