#include "comm/local.h"

#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/check.h"
#include "comm/group.h"
#include "comm/local_hub.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<LocalHub> hub, int rank, int size)
      : hub_(std::move(hub)), rank_(rank), size_(size) {}
  ~LocalGroup() override { hub_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(const Operation& operation, Tensor in, Tensor out) override {
    const auto& all = hub_->meet(rank_, {operation, in.raw()});
    for (int peer = 0; peer < size_; ++peer) {
      const Tensor to = out.slice(peer * operation.count, operation.count);
      if (to.bytes() > 0 && to.raw() != all[peer].in) {
        std::memcpy(to.raw(), all[peer].in, to.bytes());
      }
    }
    hub_->part(rank_);
  }

  void reduce_scatter(const Operation& operation, Tensor in, Tensor out) override {
    const auto& all = hub_->meet(rank_, {operation, in.raw()});
    // In place, a rank writes its own chunk of `in`, which nobody else reads.
    const std::size_t offset = static_cast<std::size_t>(rank_) * out.bytes();
    std::vector<const void*> chunks;
    for (const auto& theirs : all)
      chunks.push_back(static_cast<const std::byte*>(theirs.in) + offset);
    sum_in_rank_order(chunks, out.raw(), operation.count, operation.dtype, operation.reduce);
    hub_->part(rank_);
  }

  void broadcast(const Operation& operation, Tensor x) override {
    const auto& all = hub_->meet(rank_, {operation, x.raw()});
    if (rank_ != operation.root && x.bytes() > 0) {
      std::memcpy(x.raw(), all[operation.root].in, x.bytes());
    }
    hub_->part(rank_);
  }

  void barrier(const Operation& operation) override {
    hub_->meet(rank_, {operation});
    hub_->part(rank_);
  }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    const auto& all = hub_->meet(rank_, {.operation = operation, .color = color});
    int rank = 0;
    int size = 0;
    for (int peer = 0; peer < size_; ++peer) {
      if (all[peer].color != color) continue;
      if (peer < rank_) ++rank;
      ++size;
    }
    auto hub = hub_->child(color, size);
    hub_->part(rank_);
    return std::make_shared<LocalGroup>(std::move(hub), rank, size);
  }

  void abort(const std::string& reason) noexcept override { hub_->abort(reason); }

 private:
  std::shared_ptr<LocalHub> hub_;
  const int rank_;
  const int size_;
};

// Remembers which of several ranks' errors to report.
class FirstError {
 public:
  void add(std::exception_ptr error, bool consequence) {
    const std::lock_guard lock(mutex_);
    if (first_ && (consequence || !consequence_)) return;
    first_ = std::move(error);
    consequence_ = consequence;
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  bool consequence_ = false;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            std::chrono::milliseconds timeout) {
  NANOFSDP_CHECK(world_size >= 1, .what = "local group", .expected = "at least 1 rank",
                 .got = std::to_string(world_size));
  const auto hub = std::make_shared<LocalHub>(world_size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(on_streams(std::make_shared<LocalGroup>(hub, rank, world_size)));
  }
  return ranks;
}

void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    std::chrono::milliseconds timeout) {
  auto group = make_local_group(world_size, timeout);
  FirstError error;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank, comm = std::move(group[rank])]() mutable {
      // A rank that unwinds destroys its communicators, which tells those who wait for it.
      try {
        Context context(rank, world_size, threads);
        body(context, std::move(comm));
      } catch (const CommError& e) {
        error.add(std::current_exception(), is_consequence(e.kind()));
      } catch (...) {
        error.add(std::current_exception(), false);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  error.rethrow();
}

}  // namespace nanofsdp::comm
