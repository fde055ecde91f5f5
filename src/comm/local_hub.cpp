#include "comm/local_hub.h"

#include <fmt/format.h>

#include <utility>

namespace nanofsdp::comm {
namespace {
std::string name_ranks(const std::vector<int>& ranks) {
  std::string names = ranks.size() > 1 ? "ranks" : "rank";
  for (const int rank : ranks) names += fmt::format("{}{}", rank == ranks[0] ? " " : ", ", rank);
  return names;
}
}  // namespace

LocalHub::LocalHub(int size, std::chrono::milliseconds timeout)
    : size_(size),
      timeout_(timeout),
      operands_(static_cast<std::size_t>(size)),
      waits_(static_cast<std::size_t>(size)),
      meeting_(static_cast<std::size_t>(size)),
      left_(static_cast<std::size_t>(size)) {}

const std::vector<LocalHub::Operands>& LocalHub::meet(int rank, const Operands& mine) {
  std::unique_lock lock(mutex_);
  const Operation& operation = mine.operation;
  if (!broken_.empty()) fail(CommError::Kind::aborted, rank, operation, "gave up: " + broken_);
  if (meeting_[rank]) {
    fail(CommError::Kind::mismatch, rank, operation,
         "is inside another call of the same communicator; use one stream");
  }
  meeting_[rank] = true;
  operands_[rank] = mine;
  ++waits_[rank];
  changed_.notify_all();
  const bool in_time = changed_.wait_for(lock, timeout_, [&] {
    return all_came(rank) || !broken_.empty() || !late(rank, true).empty();
  });
  if (!all_came(rank)) {
    if (!broken_.empty()) fail(CommError::Kind::aborted, rank, operation, "gave up: " + broken_);
    if (in_time) {
      fail(CommError::Kind::peer_lost, rank, operation, "lost " + name_ranks(late(rank, true)));
    }
    fail(CommError::Kind::timeout, rank, operation,
         fmt::format("waited {} ms in vain for {}", timeout_.count(),
                     name_ranks(late(rank, false))));
  }
  for (int peer = 0; peer < size_; ++peer) {
    const Operation& theirs = operands_[peer].operation;
    if (theirs == operation) continue;
    broken_ = "its ranks disagreed";
    throw mismatch_error(rank, operation, peer, theirs);
  }
  return operands_;
}

void LocalHub::part(int rank) {
  std::unique_lock lock(mutex_);
  ++waits_[rank];
  changed_.notify_all();
  changed_.wait(lock, [&] { return all_came(rank) || !late(rank, true).empty(); });
  splitting_.clear();
  meeting_[rank] = false;
}

bool LocalHub::all_came(int rank) const { return late(rank, false).empty(); }

std::vector<int> LocalHub::late(int rank, bool gone) const {
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (waits_[peer] < waits_[rank] && (left_[peer] || !gone)) ranks.push_back(peer);
  }
  return ranks;
}

void LocalHub::fail(CommError::Kind kind, int rank, const Operation& operation,
                    const std::string& what) {
  if (broken_.empty()) broken_ = fmt::format("rank {} {}", rank, what);
  changed_.notify_all();
  throw operation_error(kind, rank, operation, what);
}

std::shared_ptr<LocalHub> LocalHub::child(int color, int size) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<LocalHub>& hub = splitting_[color];
  if (hub == nullptr) {
    hub = std::make_shared<LocalHub>(size, timeout_);
    children_.push_back(hub);
  }
  return hub;
}

void LocalHub::leave(int rank) {
  const std::lock_guard lock(mutex_);
  left_[rank] = true;
  changed_.notify_all();
}

void LocalHub::abort(const std::string& reason) {
  std::vector<std::weak_ptr<LocalHub>> children;
  {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = reason;
    children = children_;
    changed_.notify_all();
  }
  for (const auto& weak : children) {
    if (const auto child = weak.lock()) child->abort(reason);
  }
}

}  // namespace nanofsdp::comm
