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

Mesh::Mesh(std::unique_ptr<Communicator> world, int shard_size)
    : world_(std::move(world)),
      gather_(world_.split(world_.rank() / shard_group_size(shard_size, world_.size()))),
      reduce_(world_.split(world_.rank() / gather_.size())),
      replicate_(world_.split(world_.rank() % gather_.size())) {}

Mesh::Mesh(std::unique_ptr<Communicator> world, std::unique_ptr<Communicator> gather,
           std::unique_ptr<Communicator> reduce, std::unique_ptr<Communicator> replicate)
    : world_(std::move(world)),
      gather_(std::move(gather)),
      reduce_(std::move(reduce)),
      replicate_(std::move(replicate)) {}

void Mesh::reset_traffic() {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_, &replicate_}) comm->reset();
}

void Mesh::abort(const std::string& reason) noexcept {
  for (CountingCommunicator* comm : {&world_, &gather_, &reduce_, &replicate_}) {
    comm->abort(reason);
  }
}

}  // namespace nanofsdp::comm
