#include "comm/mesh.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/local.h"

namespace nanofsdp::comm {

int group_size(int size, int ranks, const char* what) {
  if (size == 0) return ranks;
  if (size > 0 && ranks % size == 0) return size;
  NANOFSDP_REFUSE(what, fmt::format("a divisor of {} ranks", ranks), std::to_string(size));
}

Mesh::Mesh(std::unique_ptr<Communicator> world, int shard_size, int post_forward_size,
           int tensor_size) {
  groups_.push_back(make_self());
  const int together = group_size(tensor_size, world->size(), "tensor_size");
  if (together > 1) {
    groups_[kTensor] = world->split(world->rank() / together);
    world = world->split(world->rank() % together);
  }
  const int rank = world->rank(), shard = group_size(shard_size, world->size());
  const int near = group_size(post_forward_size, shard, "reshard_after_forward");
  groups_.push_back(std::move(world));
  std::vector<int> colors{rank / shard, rank / shard, rank % shard};
  if (near < shard) colors.push_back(rank / near);
  for (const int color : colors) groups_.push_back(groups_[kWorld]->split(color));
  reset_traffic();  // drops the traffic of the world before this
}

Traffic Mesh::traffic() const {
  Traffic sum;
  for (const auto& group : groups_) sum = sum + group->traffic();
  return sum;
}

void Mesh::reset_traffic() {
  for (const auto& group : groups_) group->reset_traffic();
}

void Mesh::abort(const std::string& reason) noexcept {
  for (const auto& group : groups_) group->abort(reason);
}

}  // namespace nanofsdp::comm
