#include "comm/mesh.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace nanofsdp::comm {

int shard_group_size(int shard_size, int ranks) {
  if (shard_size == 0) return ranks;
  if (shard_size > 0 && ranks % shard_size == 0) return shard_size;
  throw UsageError({.what = "shard_size",
                    .expected = fmt::format("a divisor of {} ranks", ranks),
                    .got = std::to_string(shard_size)});
}

int post_forward_group_size(int size, int ranks) {
  if (size == 0 || size == ranks) return 0;
  if (size > 1 && ranks % size == 0) return size;
  throw UsageError({.what = "reshard_after_forward",
                    .expected = fmt::format("a divisor of {} ranks, more than 1", ranks),
                    .got = std::to_string(size),
                    .hint = "1 is --strategy=shard_grad_op"});
}

Mesh::Mesh(std::unique_ptr<Communicator> world, int shard_size, int post_forward_size)
    : world_(std::move(world)),
      gather_(world_.split(world_.rank() / shard_group_size(shard_size, world_.size()))),
      reduce_(world_.split(world_.rank() / gather_.size())),
      replicate_(world_.split(world_.rank() % gather_.size())) {
  const int size = post_forward_group_size(post_forward_size, gather_.size());
  if (size > 0) post_forward_.emplace(world_.split(world_.rank() / size));
}

Mesh::Mesh(std::unique_ptr<Communicator> world, std::unique_ptr<Communicator> gather,
           std::unique_ptr<Communicator> reduce, std::unique_ptr<Communicator> replicate,
           std::unique_ptr<Communicator> post_forward)
    : world_(std::move(world)),
      gather_(std::move(gather)),
      reduce_(std::move(reduce)),
      replicate_(std::move(replicate)) {
  if (post_forward != nullptr) post_forward_.emplace(std::move(post_forward));
}

Traffic Mesh::traffic() const {
  return world_.traffic() + gather_.traffic() + reduce_.traffic() + replicate_.traffic() +
         traffic_near();
}

void Mesh::reset_traffic() {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_, &replicate_}) comm->reset();
  if (post_forward_) post_forward_->reset();
}

void Mesh::abort(const std::string& reason) noexcept {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_, &replicate_}) {
    comm->abort(reason);
  }
  if (post_forward_) post_forward_->abort(reason);
}

}  // namespace nanofsdp::comm
