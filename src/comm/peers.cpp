#include "comm/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nanofsdp::comm {

using namespace std::chrono_literals;

Run::Run(launch::Store& the_store, std::chrono::milliseconds the_timeout,
         std::chrono::milliseconds the_connect_timeout)
    : store(the_store),
      timeout(std::clamp<std::chrono::milliseconds>(the_timeout, 1ms, 24h)),
      connect_timeout(the_connect_timeout) {
  store.on_loss([this](const std::string& what) {
    const std::lock_guard lock(mutex);
    for (Peers* group : groups) group->abort(what);
  });
}

Run::~Run() { store.on_loss({}); }

bool Run::share_memory(const std::vector<int>& ranks) const {
  return std::ranges::all_of(ranks,
                             [&](int rank) { return std::ranges::count(sharers, rank) == 1; });
}

Peers::Peers(std::shared_ptr<Run> run, std::vector<int> members, std::function<void()> cut)
    : run_(std::move(run)), members_(std::move(members)), cut_(std::move(cut)) {
  {
    const std::lock_guard lock(run_->mutex);
    run_->groups.push_back(this);
  }
  const std::string lost = run_->store.loss(0ms);  // meanwhile
  if (!lost.empty()) abort(lost);
}

Peers::~Peers() {
  const std::lock_guard lock(run_->mutex);
  std::erase(run_->groups, this);
}

void Peers::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) return;
    aborted_ = reason;
  }
  cut_();
}

void Peers::check() const {
  const std::lock_guard lock(mutex_);
  if (!aborted_.empty()) throw WaitError{CommError::Kind::aborted, "gave up: " + aborted_};
}

void Peers::fail(int peer, bool timed_out, const std::string& why) {
  check();
  // The peer may be a victim, too. As long as nobody lets go the one who is lost stands out; and
  // the store knows who was lost first and why, or soon will.
  const std::string cause = timed_out ? run_->store.roll_call() : run_->store.loss(1s);
  const int rank = members_[static_cast<std::size_t>(peer)];
  abort(fmt::format("the connection to rank {} failed", rank));
  if (!timed_out) {
    if (!cause.empty()) throw WaitError{CommError::Kind::aborted, "gave up: " + cause};
    throw WaitError{CommError::Kind::peer_lost, fmt::format("lost rank {} ({})", rank, why)};
  }
  throw WaitError{CommError::Kind::timeout,
                  fmt::format("waited {} ms in vain for rank {}", run_->timeout.count(), rank)};
}

}  // namespace nanofsdp::comm
