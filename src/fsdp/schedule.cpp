#include "fsdp/schedule.h"

#include <algorithm>
#include <utility>

namespace nanofsdp::fsdp {

void Schedule::begin() {
  if (!begun_.empty()) before_ = std::exchange(begun_, {});
  ended_.clear();
  left_ = before_;
  in_backward_ = false;
}

std::vector<Unit*> Schedule::begin_forward(Unit& unit, int count) {
  if (in_backward_ || !std::exchange(unit.gathered_since_last_forward, false)) return {};
  begun_.push_back(&unit);
  const auto found = std::ranges::find(left_, &unit);
  if (found == left_.end()) return {};  // the last pass did not use it
  left_ = {found + 1, left_.end()};
  const std::span next = left_.first(std::min(left_.size(), static_cast<std::size_t>(count)));
  return {next.begin(), next.end()};
}

void Schedule::begin_backward(const Unit& unit) {
  in_backward_ = true;
  const auto found = std::find(ended_.rbegin(), ended_.rend(), &unit);
  if (found != ended_.rend()) ended_.erase(found.base() - 1, ended_.end());
}

}  // namespace nanofsdp::fsdp
