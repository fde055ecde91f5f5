#include "fsdp/prefetch.h"

#include <algorithm>

namespace nanofsdp::fsdp {

Unit* ForwardOrder::next_in_forward(const Unit& unit, std::size_t distance) const {
  const auto found = std::ranges::find(before_, &unit);
  return static_cast<std::size_t>(before_.end() - found) > distance ? *(found + distance) : nullptr;
}

Unit* ForwardOrder::next_in_backward(const Unit& unit) const {
  if (units_.size() < 2) return nullptr;
  if (&unit == units_.front()) return units_.back();
  const auto found = std::ranges::find(units_, &unit);
  const bool first_block = found == units_.begin() + 1;
  return found == units_.end() || first_block ? nullptr : *(found - 1);
}

}  // namespace nanofsdp::fsdp
