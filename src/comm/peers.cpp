#include "comm/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nanofsdp::comm {

using namespace std::chrono_literals;

RunState::RunState(std::chrono::milliseconds the_timeout)
    : timeout(std::clamp<std::chrono::milliseconds>(the_timeout, 1ms, Patience::kLongest)) {}

void RunState::abort(const std::string& reason) {
  const std::lock_guard lock(mutex);
  aborted = reason;
  for (Peers* group : groups) group->abort(reason);
}

Peers::Peers(const std::shared_ptr<RunState>& state, const GroupSpec& spec,
             std::function<void(const std::string&)> cut)
    : run(state), members(spec.members), rank_(members[spec.rank]), cut_(std::move(cut)) {
  const std::lock_guard lock(run->mutex);
  run->groups.push_back(this);
  if (!run->aborted.empty()) abort(run->aborted);
}

Peers::~Peers() {
  const std::lock_guard lock(run->mutex);
  std::erase(run->groups, this);
}

const Operation& Peers::begin(const Operation& operation) {
  append(calls_, operation);
  check();
  return calls_.back();
}

void Peers::require_same_call(int peer, const History& theirs) {
  if (calls_.back() == theirs.back()) return;
  abort("its ranks disagreed");  // other peers may agree and send, so their messages must release
                                 // the memory
  throw mismatch_error(rank_, calls_, members[peer], theirs);
}

void Peers::abort(const std::string& reason) noexcept {
  std::unique_lock lock(mutex_);
  if (aborted_) return;
  aborted_ = reason;
  lock.unlock();
  cut_(reason);
}

void Peers::check() const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw operation_error(Kind::aborted, rank_, calls_, "gave up: " + *aborted_);
}

CommError Peers::failure(const std::vector<int>& peers, bool timed_out, const std::string& why,
                         const std::string& told) try {
  // After a whole timeout this rank tells its own error, whatever others say meanwhile.
  if (!timed_out) check();
  std::string names;
  for (const int peer : peers)
    names += (names.empty() ? "rank " : ", rank ") + std::to_string(members[peer]);
  // The peer may have failed because of another rank. As long as no rank leaves, the lost one can
  // be recognised. The run knows which rank was lost first and why, or will soon know it.
  const std::string cause = timed_out ? "" : run->loss();
  const std::string what =
      timed_out ? fmt::format("waited {} ms in vain for {}", run->timeout.count(), names)
                : fmt::format("lost {} ({})", names, why);
  abort(fmt::format("rank {} {}", rank_, what));
  const std::string& reason = cause.empty() ? told : cause;
  const Kind kind = timed_out ? Kind::timeout : Kind::peer_lost;
  if (timed_out || reason.empty()) return operation_error(kind, rank_, calls_, what);
  return operation_error(Kind::aborted, rank_, calls_, "gave up: " + reason);
} catch (const CommError& error) {
  return error;
}

}  // namespace nanofsdp::comm
