#include "comm/mesh.h"

#include <fmt/format.h>

#include "base/check.h"

namespace nanofsdp::comm {

int shard_group_size(int shard_size, int ranks) {
  if (shard_size == 0) return ranks;
  if (shard_size > 0 && ranks % shard_size == 0) return shard_size;
  NANOFSDP_REFUSE(.what = "shard_size", .expected = fmt::format("a divisor of {} ranks", ranks),
                  .got = std::to_string(shard_size));
}

int post_forward_group_size(int size, int ranks) {
  if (size == 0 || size == ranks) return 0;
  if (size > 1 && ranks % size == 0) return size;
  NANOFSDP_REFUSE(.what = "reshard_after_forward",
                  .expected = fmt::format("a divisor of {} ranks, more than 1", ranks),
                  .got = std::to_string(size), .hint = "1 is shard_grad_op, without such groups");
}

Mesh::Mesh(std::unique_ptr<Communicator> world, int shard_size, int post_forward_size) {
  const int rank = world->rank(), shard = shard_group_size(shard_size, world->size());
  const int near = post_forward_group_size(post_forward_size, shard);
  groups_.push_back(std::move(world));
  std::vector<int> colors{rank / shard, rank / shard, rank % shard};
  if (near > 0) colors.push_back(rank / near);
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
