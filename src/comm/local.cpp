#include "comm/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "comm/reading.h"

namespace nanofsdp::comm {
namespace {

using Kind = CommError::Kind;

// Where the threads of a group meet.
class Hub {
 public:
  // What a rank lays open in a meeting.
  struct Operands {
    const void* in = nullptr;  // what the others may read until part()
    Event ready{};             // once this has passed
    int color = 0;             // of a split
    History calls{};           // up to this one
  };

  Hub(std::vector<int> members, const LocalOptions& options)
      : options_(options), members_(std::move(members)) {}

  // Waits until all ranks have come with an equal operation. The result is valid until part().
  const std::vector<Operands>& meet(int rank, const Operation& operation, Operands mine) {
    std::unique_lock lock(mutex_);
    mine.calls = open_[rank].calls;
    append(mine.calls, operation);
    const auto fail = [&](Kind kind, const std::string& what) {
      if (broken_.empty()) broken_ = fmt::format("rank {} {}", members_[rank], what);
      changed_.notify_all();
      throw operation_error(kind, members_[rank], mine.calls, what);
    };
    if (!broken_.empty()) fail(Kind::aborted, "gave up: " + broken_);
    open_[rank] = mine;
    ++ranks_[rank].came;
    changed_.notify_all();
    met_at_ = std::chrono::steady_clock::now();  // the last one to come has the last word
    const bool in_time = changed_.wait_for(lock, options_.timeout, [&] {
      return late(rank).empty() || !broken_.empty() || !late(rank, true).empty();
    });
    if (!late(rank).empty()) {
      if (!broken_.empty()) fail(Kind::aborted, "gave up: " + broken_);
      if (in_time) fail(Kind::peer_lost, "lost " + late(rank, true));
      fail(Kind::timeout,
           fmt::format("waited {} ms in vain for {}", options_.timeout.count(), late(rank)));
    }
    for (std::size_t peer = 0; peer < open_.size(); ++peer) {
      const History& theirs = open_[peer].calls;
      if (theirs.back() == operation) continue;
      broken_ = "its ranks disagreed";
      throw mismatch_error(members_[rank], mine.calls, members_[peer], theirs);
    }
    return open_;
  }

  // Ends the meeting: waits until nobody reads operands any more once the events have passed that
  // come back, each rank's `done`. An abort does not shorten this, or an operand might be freed
  // while a peer copies it. Then waits for the link to have brought what this rank has `received`;
  // an abort ends the pretence.
  std::vector<Event> part(int rank, const Event& done = {}, std::size_t received = 0) {
    std::unique_lock lock(mutex_);
    const auto arrival = met_at_ + options_.link.time_for(static_cast<double>(received));
    ranks_[rank].done = done;
    ++ranks_[rank].came;
    changed_.notify_all();
    changed_.wait(lock, [&] { return late(rank).empty() || !late(rank, true).empty(); });
    splitting_.clear();
    std::vector<Event> all_done;
    for (const Rank& peer : ranks_) all_done.push_back(peer.done);
    if (ranks_.size() > 1 && arrival > met_at_) {
      changed_.wait_until(lock, arrival, [&] { return !broken_.empty(); });
    }
    return all_done;
  }

  // In the meeting of a split: the hub of the ranks with this color, which the first makes.
  std::shared_ptr<Hub> child(int color) {
    const std::lock_guard lock(mutex_);
    std::vector<int> members;
    for (std::size_t rank = 0; rank < open_.size(); ++rank)
      if (open_[rank].color == color) members.push_back(members_[rank]);
    return splitting_.try_emplace(color, std::make_shared<Hub>(members, options_)).first->second;
  }

  // The rank will not come again.
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    ranks_[rank].left = true;
    changed_.notify_all();
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = reason;
    changed_.notify_all();
  }

 private:
  struct Rank {
    std::uint64_t came = 0;  // how often, to meet or to part
    bool left = false;
    Event done{};  // of the last part(); who is late finds it until the next: all meet in between
  };

  // Who has not come as often as `rank`, or of these who has left: "rank 1, rank 2", or nothing.
  std::string late(int rank, bool only_if_left = false) const {
    std::string names;
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (ranks_[peer].came >= ranks_[rank].came || (only_if_left && !ranks_[peer].left)) continue;
      names += fmt::format("{}rank {}", names.empty() ? "" : ", ", members_[peer]);
    }
    return names;
  }

  const LocalOptions options_;
  const std::vector<int> members_;  // ranks in the run, by which errors name them
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_ = std::vector<Rank>(members_.size());
  std::vector<Operands> open_ = std::vector<Operands>(members_.size());
  std::chrono::steady_clock::time_point met_at_;  // when the last rank came to the last meeting
  std::string broken_;                            // why nothing works any more; empty while it does
  std::map<int, std::shared_ptr<Hub>> splitting_;
};

// On the CPU work is done when it returns, so any point after it has passed. A device has yet to do
// what was launched: the point lies behind that.
Event now(Stream& stream) { return stream.device() == Device::cpu ? Event() : stream.record(); }

void wait_for(Stream& stream, const Event& event) {
  if (event.state() != nullptr) stream.wait(event);
}

class LocalGroup final : public ReadingGroup {
 public:
  LocalGroup(std::shared_ptr<Hub> hub, int rank, int size)
      : ReadingGroup(rank, size), hub_(std::move(hub)) {}
  ~LocalGroup() override { hub_->leave(rank_); }

  bool serves(Device) const override { return true; }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    const auto& all = hub_->meet(rank_, operation, {.color = color});
    const auto same = [&](const Hub::Operands& theirs) { return theirs.color == color; };
    const auto rank = static_cast<int>(std::count_if(all.begin(), all.begin() + rank_, same));
    const auto size = static_cast<int>(std::count_if(all.begin(), all.end(), same));
    auto hub = hub_->child(color);
    hub_->part(rank_);
    return std::make_shared<LocalGroup>(std::move(hub), rank, size);
  }

  void abort(const std::string& reason) noexcept override { hub_->abort(reason); }

 private:
  const std::vector<const void*>& meet(Stream& stream, const Operation& operation,
                                       Tensor in) override {
    open_.clear();
    for (const auto& theirs :
         hub_->meet(rank_, operation, {.in = in.raw(), .ready = now(stream)})) {
      wait_for(stream, theirs.ready);
      open_.push_back(theirs.in);
    }
    return open_;
  }

  void part(Stream& stream, std::size_t received) override {
    for (const Event& done : hub_->part(rank_, now(stream), received)) wait_for(stream, done);
  }

  std::shared_ptr<Hub> hub_;
  std::vector<const void*> open_;  // by the ranks, in the last meeting
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            const LocalOptions& options) {
  NANOFSDP_CHECK(world_size >= 1, .what = "local group", .expected = "at least 1 rank",
                 .got = std::to_string(world_size));
  std::vector<int> members;
  for (int rank = 0; rank < world_size; ++rank) members.push_back(rank);
  const auto hub = std::make_shared<Hub>(std::move(members), options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(on_streams(std::make_shared<LocalGroup>(hub, rank, world_size)));
  }
  return ranks;
}

void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    const LocalOptions& options) {
  const bool linked = options.link.bytes_per_second > 0 || options.link.latency.count() > 0;
  NANOFSDP_CHECK(options.device == Device::cpu || !linked, .what = "pretended link",
                 .expected = "ranks on the CPU", .got = "ranks on a GPU");
  auto group = make_local_group(world_size, options);
  std::mutex mutex;
  std::exception_ptr cause, consequence;  // the first of each
  const auto keep = [&](std::exception_ptr& first) {
    const std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank, comm = std::move(group[rank])]() mutable {
      // A rank that unwinds destroys its communicators, which tells those who wait for it.
      try {
        Context context(rank, world_size, threads, options.device);
        body(context, std::move(comm));
      } catch (const CommError& e) {
        keep(e.consequence() ? consequence : cause);
      } catch (...) {
        keep(cause);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (cause || consequence) std::rethrow_exception(cause ? cause : consequence);
}

}  // namespace nanofsdp::comm
