#include "fsdp/schedule.h"

#include <algorithm>

namespace nanofsdp::fsdp {

void Schedule::begin() {
  if (!begun_.empty()) before_ = std::exchange(begun_, {});
  gathered_.clear();
  ended_.clear();
  forward_at_ = 0;
  in_backward_ = false;
}

void Schedule::begin_forward(Unit& unit) {
  known_ = false;
  if (in_backward_ || gathered_.erase(&unit) == 0) return;
  begun_.push_back(&unit);
  const auto from = before_.begin() + static_cast<std::ptrdiff_t>(forward_at_);
  const auto found = std::find(from, before_.end(), &unit);
  known_ = found != before_.end();
  if (known_) forward_at_ = static_cast<std::size_t>(found - before_.begin()) + 1;
}

void Schedule::end_forward(Unit& unit) {
  if (!in_backward_) ended_.push_back(&unit);
}

void Schedule::begin_backward(const Unit& unit) {
  in_backward_ = true;
  const auto found = std::find(ended_.rbegin(), ended_.rend(), &unit);
  if (found != ended_.rend()) ended_.erase(found.base() - 1, ended_.end());
}

std::vector<Unit*> Schedule::next_in_forward(int count) const {
  if (in_backward_ || !known_) return {};
  const auto left = static_cast<std::ptrdiff_t>(before_.size() - forward_at_);
  const auto from = before_.begin() + static_cast<std::ptrdiff_t>(forward_at_);
  return {from, from + std::min<std::ptrdiff_t>(count, left)};
}

std::vector<Unit*> Schedule::next_in_backward() const {
  if (ended_.empty()) return {};
  return {ended_.back()};
}

}  // namespace nanofsdp::fsdp
