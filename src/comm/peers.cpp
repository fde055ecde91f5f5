#include "comm/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nanofsdp::comm {

using namespace std::chrono_literals;

Run::Run(std::chrono::milliseconds the_timeout)
    : timeout(std::clamp<std::chrono::milliseconds>(the_timeout, 1ms, 24h)) {}

bool Run::share_memory(const std::vector<int>& ranks) const {
  return std::includes(sharers.begin(), sharers.end(), ranks.begin(), ranks.end());
}

std::byte* Run::lengthen(Buffer& buffer, std::size_t bytes) const {
  if (buffer.bytes() < bytes) {
    buffer = Buffer();  // first give back, then take
    buffer = Buffer(*ledger, MemoryClass::communication, bytes, Device::cpu, Buffer::Use::whole,
                    memory.get());
  }
  return static_cast<std::byte*>(buffer.tensor({0}).raw());
}

void Run::abort(const std::string& reason) {
  const std::lock_guard lock(mutex);
  for (Peers* group : groups) group->abort(reason);
}

Peers::Peers(std::shared_ptr<Run> run, const Circle& circle,
             std::function<void(const std::string&)> cut)
    : run_(std::move(run)),
      rank_(circle.members[static_cast<std::size_t>(circle.rank)]),
      members_(circle.members),
      cut_(std::move(cut)) {
  {
    const std::lock_guard lock(run_->mutex);
    run_->groups.push_back(this);
  }
  const std::string lost = run_->loss(0ms);  // meanwhile
  if (!lost.empty()) abort(lost);
}

Peers::~Peers() {
  const std::lock_guard lock(run_->mutex);
  std::erase(run_->groups, this);
}

std::string Peers::name(int peer) const {
  return fmt::format("rank {}", members_[static_cast<std::size_t>(peer)]);
}

void Peers::begin(const Operation& operation) {
  append(calls_, operation);
  check();
}

void Peers::agree(int peer, const History& theirs) {
  if (calls_.back() == theirs.back()) return;
  abort("its ranks disagreed");  // other peers may agree, and be sending: let go of the memory
  throw mismatch_error(rank_, calls_, members_[static_cast<std::size_t>(peer)], theirs);
}

void Peers::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = reason;
  }
  cut_(reason);
}

CommError Peers::error(Kind kind, const std::string& what) const {
  return operation_error(kind, rank_, calls_, what);
}

void Peers::check() const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw error(Kind::aborted, "gave up: " + *aborted_);
}

CommError Peers::failure(const std::string& names, bool timed_out, const std::string& why,
                         const std::string& told) try {
  check();
  // The peer may be a victim, too. As long as nobody lets go the one who is lost stands out; and
  // the run knows who was lost first and why, or soon will.
  const std::string cause = timed_out ? run_->roll_call() : run_->loss(1s);
  const std::string what =
      timed_out ? fmt::format("waited {} ms in vain for {}", run_->timeout.count(), names)
                : fmt::format("lost {} ({})", names, why);
  abort(fmt::format("rank {} {}", rank_, what));
  const std::string& reason = cause.empty() ? told : cause;
  if (timed_out || reason.empty()) return error(timed_out ? Kind::timeout : Kind::peer_lost, what);
  return error(Kind::aborted, "gave up: " + reason);
} catch (const CommError& error) {
  return error;
}

}  // namespace nanofsdp::comm
