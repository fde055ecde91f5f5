#include "fsdp/schedule.h"

#include <algorithm>

namespace nanofsdp::fsdp {

void Schedule::begin() {
  if (!begun_.empty()) before_ = std::exchange(begun_, {});
  gathered_.clear();
  ended_.clear();
  forward_at_ = backward_at_ = 0;
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
  if (!std::exchange(in_backward_, true)) backward_at_ = ended_.size();
  const auto until = ended_.begin() + static_cast<std::ptrdiff_t>(backward_at_);
  const auto found = std::find(std::make_reverse_iterator(until), ended_.rend(), &unit);
  if (found != ended_.rend()) {
    backward_at_ = static_cast<std::size_t>(ended_.rend() - found) - 1;
  }
}

Unit* Schedule::next_in_forward(std::size_t distance) const {
  const std::size_t at = forward_at_ + distance - 1;
  return in_backward_ || !known_ || at >= before_.size() ? nullptr : before_[at];
}

}  // namespace nanofsdp::fsdp
