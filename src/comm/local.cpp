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
#include "comm/group.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Kind = CommError::Kind;

// Where the threads of a group meet.
class Hub {
 public:
  // What a rank lays open in a meeting.
  struct Operands {
    const void* in;  // what the others may read until part()
    int color;       // of a split
    History calls;   // up to this one
  };

  Hub(int size, const LocalOptions& options)
      : options_(options), ranks_(static_cast<std::size_t>(size)), open_(ranks_.size()) {}

  // Waits until all ranks have come with an equal operation. The result is valid until part().
  const std::vector<Operands>& meet(int rank, const Operation& operation, const void* in = nullptr,
                                    int color = 0) {
    std::unique_lock lock(mutex_);
    Operands mine{in, color, open_[rank].calls};
    append(mine.calls, operation);
    const auto fail = [&](Kind kind, const std::string& what) {
      if (broken_.empty()) broken_ = fmt::format("rank {} {}", rank, what);
      changed_.notify_all();
      throw operation_error(kind, rank, mine.calls, what);
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
      throw mismatch_error(rank, mine.calls, static_cast<int>(peer), theirs);
    }
    return open_;
  }

  // Ends the meeting: waits until nobody reads operands any more. An abort does not shorten this,
  // or an operand might be freed while a peer copies it. Then waits for the link to have brought
  // what this rank has `received`; an abort ends the pretence.
  void part(int rank, std::size_t received = 0) {
    std::unique_lock lock(mutex_);
    const auto arrival = met_at_ + options_.link.time_for(static_cast<double>(received));
    ++ranks_[rank].came;
    changed_.notify_all();
    changed_.wait(lock, [&] { return late(rank).empty() || !late(rank, true).empty(); });
    splitting_.clear();
    if (ranks_.size() > 1 && arrival > met_at_) {
      changed_.wait_until(lock, arrival, [&] { return !broken_.empty(); });
    }
  }

  // In the meeting of a split: the hub of the ranks with this color.
  std::shared_ptr<Hub> child(int color, int size) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Hub>& hub = splitting_[color];
    if (hub == nullptr) hub = std::make_shared<Hub>(size, options_);
    return hub;
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
  };

  // Who has not come as often as `rank`, or of these who has left: "rank 1, rank 2", or nothing.
  std::string late(int rank, bool only_if_left = false) const {
    std::string names;
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (ranks_[peer].came >= ranks_[rank].came || (only_if_left && !ranks_[peer].left)) continue;
      names += fmt::format("{}rank {}", names.empty() ? "" : ", ", peer);
    }
    return names;
  }

  const LocalOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::vector<Operands> open_;
  std::chrono::steady_clock::time_point met_at_;  // when the last rank came to the last meeting
  std::string broken_;                            // why nothing works any more; empty while it does
  std::map<int, std::shared_ptr<Hub>> splitting_;
};

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Hub> hub, int rank, int size)
      : Group(rank, size), hub_(std::move(hub)) {}
  ~LocalGroup() override { hub_->leave(rank_); }

  void all_gather(const Operation& operation, Tensor in, Tensor out) override {
    const auto& all = hub_->meet(rank_, operation, in.raw());
    for (int peer = 0; peer < size_; ++peer) {
      copy(all[peer].in, out.slice(peer * operation.count, operation.count));
    }
    hub_->part(rank_, out.bytes() - in.bytes());
  }

  void reduce_scatter(const Operation& operation, Tensor in, Tensor out) override {
    // In place, a rank writes its own chunk of `in`, which nobody else reads.
    std::vector<const void*> chunks;
    for (const auto& theirs : hub_->meet(rank_, operation, in.raw())) {
      chunks.push_back(static_cast<const std::byte*>(theirs.in) + rank_ * out.bytes());
    }
    sum_in_rank_order(chunks, out.raw(), operation.count, operation.dtype, operation.reduce);
    hub_->part(rank_, in.bytes() - out.bytes());
  }

  void broadcast(const Operation& operation, Tensor x) override {
    copy(hub_->meet(rank_, operation, x.raw())[operation.root].in, x);
    hub_->part(rank_, rank_ == operation.root ? 0 : x.bytes());
  }

  void barrier(const Operation& operation) override {
    hub_->meet(rank_, operation);
    hub_->part(rank_);
  }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    const auto& all = hub_->meet(rank_, operation, nullptr, color);
    const auto same = [&](const Hub::Operands& theirs) { return theirs.color == color; };
    const auto rank = static_cast<int>(std::count_if(all.begin(), all.begin() + rank_, same));
    const auto size = static_cast<int>(std::count_if(all.begin(), all.end(), same));
    auto hub = hub_->child(color, size);
    hub_->part(rank_);
    return std::make_shared<LocalGroup>(std::move(hub), rank, size);
  }

  void abort(const std::string& reason) noexcept override { hub_->abort(reason); }

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            const LocalOptions& options) {
  NANOFSDP_CHECK(world_size >= 1, .what = "local group", .expected = "at least 1 rank",
                 .got = std::to_string(world_size));
  const auto hub = std::make_shared<Hub>(world_size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(on_streams(std::make_shared<LocalGroup>(hub, rank, world_size)));
  }
  return ranks;
}

void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    const LocalOptions& options) {
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
        Context context(rank, world_size, threads);
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
