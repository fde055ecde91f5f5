#include "comm/reading.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "base/platform.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = Operation::Kind;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr std::size_t kMailBytes = 1 << 16;

// A process that waits first offers its core to others, again and again: to sleep and be woken
// takes longer than many a wait.
constexpr auto kYield = 50us;

// Twice the number of times that ranks have come, and whether the group has failed.
using Count = std::uint32_t;
constexpr Count kOnce = 2, kFailed = 1;

// What a rank says of one call.
struct Letter {
  History calls{};       // up to this one
  std::uint64_t in = 0;  // where its operand lies
};

// All zeros at first, or as good as that. Calls take the letters in turn. In shared memory two
// mails lie behind the desk.
struct Desk {
  alignas(64) std::atomic<Count> count{0};  // of the group; the first rank's
  alignas(64) std::atomic<Count> came{0};   // how far the count was to go when its rank last came
  std::atomic<bool> left{false};            // its rank will not come again:
  std::array<char, 256> why{};              // as it says; nothing if it just went
  Event ready{}, done{};                    // on a GPU: its operand is there; it has read all
  alignas(64) std::array<Letter, 2> letters{};
};
static_assert(std::atomic<Count>::is_always_lock_free);

// What one of the ranks lets the others read.
struct Place {
  std::uintptr_t part;  // where its memory begins; among threads at 0
  Desk* desk;
};

std::vector<Place> places_of(const Run& run, const Circle& circle) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < circle.members.size(); ++i) {
    const auto number = std::ranges::find(run.sharers, circle.members[i]) - run.sharers.begin();
    void* const first = run.memory ? run.memory->at(static_cast<int>(number), 0) : nullptr;
    const auto part = reinterpret_cast<std::uintptr_t>(first);
    places.push_back({part, reinterpret_cast<Desk*>(part + circle.desks[i])});
  }
  return places;
}

class ReadingGroup final : public Group {
 public:
  ReadingGroup(std::shared_ptr<Run> run, const Circle& circle)
      : Group(circle.rank, static_cast<int>(circle.members.size())),
        memory_(run->memory.get()),
        places_(places_of(*run, circle)),
        mine_(*places_[circle.rank].desk),
        count_(places_[0].desk->count),
        open_(circle.members.size()),
        peers_(run, circle, [this](const std::string& why) { leave(why); }) {}

  ~ReadingGroup() override {
    // A thread that failed while it read: the others still wait for it to part.
    if (reading_ && memory_ == nullptr) come(/*surely=*/true);
    peers_.abort("");
  }

  bool serves(Device device) const override { return device == Device::cpu || memory_ == nullptr; }

  void run(Stream& stream, const Operation& operation, Tensor in, Tensor out) override {
    // The sum of one is the one, and so is the average.
    if (size_ == 1) return copy(stream, in.raw(), out);
    meet(stream, operation, in);
    const std::int64_t n = in.numel();
    std::size_t received = std::max(in.bytes(), out.bytes()) - std::min(in.bytes(), out.bytes());
    if (operation.kind == Kind::reduce_scatter) {
      // In place, a rank writes its own chunk of `in`, which nobody else reads.
      for (const void*& theirs : open_) {
        theirs = static_cast<const std::byte*>(theirs) + rank_ * out.bytes();
      }
      sum_in_rank_order(stream, open_, out.raw(), out.numel(), out.dtype(), operation.reduce);
    } else if (operation.kind == Kind::broadcast) {
      copy(stream, open_[operation.root], out);
      received = rank_ == operation.root ? 0 : out.bytes();
    } else if (n > 0) {
      for (int peer = 0; peer < size_; ++peer) copy(stream, open_[peer], out.slice(peer * n, n));
    }
    part(stream, received);
  }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    return make_reading_group(peers_.run(), comm::split(*this, peers_, operation, color));
  }

  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }

 private:
  // Lays `in` open and waits until all ranks have come, with equal operations: then `open_` says
  // where this rank can read the ranks' operands, until it parts.
  void meet(Stream& stream, const Operation& operation, const Tensor& in) {
    peers_.begin(operation);
    turn_ = 1 - turn_;
    mailed_ = memory_ != nullptr && in.bytes() <= kMailBytes;
    const bool on_gpu = stream.device() != Device::cpu;
    mine_.letters[turn_].calls = peers_.calls();
    mine_.letters[turn_].in = lay_open(operation, in);
    if (on_gpu) mine_.ready = stream.record();
    come();
    met_at_ = Clock::now();
    for (int peer = 0; peer < size_; ++peer) {
      const auto& [part, desk] = places_[peer];
      peers_.agree(peer, desk->letters[turn_].calls);
      open_[peer] = reinterpret_cast<const void*>(part + desk->letters[turn_].in);
      if (on_gpu) stream.wait(desk->ready);
    }
    open_[rank_] = in.raw();
    reading_ = true;
  }

  // Where the others find the operand: nowhere, in another's broadcast.
  std::uint64_t lay_open(const Operation& operation, const Tensor& in) {
    const bool theirs = operation.kind == Kind::broadcast && operation.root != rank_;
    if (theirs || in.bytes() == 0) return 0;
    void* place = in.raw();
    if (mailed_) {
      place = reinterpret_cast<std::byte*>(&mine_ + 1) + turn_ * kMailBytes;
    } else if (memory_ != nullptr && !memory_->owns(place)) {
      place = peers_.run()->lengthen(copy_, in.bytes());
    }
    if (place != in.raw()) std::memcpy(place, in.raw(), in.bytes());
    return reinterpret_cast<std::uintptr_t>(place) - places_[rank_].part;
  }

  // Waits until nobody reads any more. Threads do so though the group has failed, or an operand
  // might be freed while another thread copies it. Processes find zeros in what was freed, and do
  // not come to the end of this wait; and a lost one would never part.
  // @param received the bytes that this rank has read from others, over the pretended link
  void part(Stream& stream, std::size_t received) {
    reading_ = false;
    if (mailed_) return;
    const bool on_gpu = stream.device() != Device::cpu;
    if (on_gpu) mine_.done = stream.record();
    come(/*surely=*/memory_ == nullptr);
    for (const Place& peer : places_) {
      if (on_gpu) stream.wait(peer.desk->done);
    }
    const auto arrival = met_at_ + peers_.run()->link.time_for(static_cast<double>(received));
    while (Clock::now() < arrival && (count_ & kFailed) == 0) {
      const std::chrono::duration<double> rest = arrival - Clock::now(), nap = 50ms;
      std::this_thread::sleep_for(std::min(rest, nap));
    }
  }

  // Counts this rank, and waits until all have come as often.
  // @param surely whether the group has failed or not
  void come(bool surely = false) {
    goal_ += kOnce * static_cast<Count>(size_);
    Count seen = count_;
    do {
      if ((seen & kFailed) != 0 && !surely) throw failure(/*timed_out=*/false);
    } while (!count_.compare_exchange_weak(seen, seen + kOnce));
    mine_.came = goal_;
    if (is_reached(seen + kOnce)) return wake(count_);
    const milliseconds timeout = peers_.run()->timeout;
    const auto begin = Clock::now();
    while (!is_reached(seen = count_)) {
      const auto waited = Clock::now() - begin;
      const bool failed = (seen & kFailed) != 0;
      if (!surely && (failed || waited >= timeout)) {
        const CommError error = failure(/*timed_out=*/!failed);
        // Threads: if all have come meanwhile, they may be reading, and it has not failed for
        // anyone.
        if (memory_ != nullptr || !is_reached(count_ |= kFailed)) throw error;
      } else if (memory_ != nullptr && waited < kYield) {
        std::this_thread::yield();
      } else {
        const auto rest = std::chrono::ceil<milliseconds>(timeout - waited);
        sleep_while(count_, seen, std::max<milliseconds>(rest, 1ms));
      }
    }
  }

  bool is_reached(Count count) const { return static_cast<std::int32_t>(count - goal_) >= 0; }

  // Why not all have come. Now the group has failed.
  CommError failure(bool timed_out) {
    std::string whom, told;
    for (int peer = 0; peer < size_; ++peer) {
      const Desk& desk = *places_[peer].desk;
      if (timed_out ? is_reached(desk.came) : !desk.left) continue;
      whom += (whom.empty() ? "" : ", ") + peers_.name(peer);
      if (desk.left && told.empty()) told = desk.why.data();
    }
    return peers_.failure(whom, timed_out, "it left", told);
  }

  // This rank will not come again: wakes all who wait, here and there.
  void leave(const std::string& why) {
    why.copy(mine_.why.data(), mine_.why.size() - 1);  // the last character stays 0
    mine_.left = true;
    count_ |= kFailed;
    wake(count_);
  }

  SharedMemory* const memory_;       // null: ranks are threads
  const std::vector<Place> places_;  // of the ranks
  Desk& mine_;                       // this rank's
  std::atomic<Count>& count_;        // of the group
  Count goal_ = 0;                   // what the count is when all have come
  std::size_t turn_ = 0;             // of the letters and mails: 0 or 1
  bool mailed_ = false;              // whether the operands of this call lie on desks
  bool reading_ = false;             // this rank has met the others, and not yet parted
  Clock::time_point met_at_{};       // when all had come
  std::vector<const void*> open_;    // the ranks' operands
  Buffer copy_;                      // of a large one from elsewhere
  Peers peers_;                      // last: may wake who sleeps from now on
};

}  // namespace

std::uint64_t take_desk(Run& run) {
  if (run.memory) {
    // A peer may have come to it already: it is all zeros, and nobody writes there once more.
    return run.memory->offset_of(run.memory->allocate(sizeof(Desk) + 2 * kMailBytes));
  }
  auto desk = std::make_shared<Desk>();
  const std::lock_guard lock(run.mutex);
  run.desks.push_back(desk);
  return reinterpret_cast<std::uintptr_t>(desk.get());
}

Circle split(Group& group, const Peers& peers, const Operation& operation, int color) {
  struct Seat {
    std::int64_t color;
    std::uint64_t desk;
  };
  Seat mine{color, take_desk(*peers.run())};
  std::vector<Seat> seats(static_cast<std::size_t>(group.size()));
  const auto stream = make_compute_stream(Device::cpu, /*threads=*/1);
  group.run(*stream, operation, Tensor(&mine, {2}, DType::float64),  // bytes, not numbers
            Tensor(seats.data(), {2 * group.size()}, DType::float64));
  Circle circle;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (static_cast<int>(i) == group.rank()) circle.rank = static_cast<int>(circle.members.size());
    if (seats[i].color != color) continue;
    circle.members.push_back(peers.members()[i]);
    circle.desks.push_back(seats[i].desk);
  }
  return circle;
}

std::shared_ptr<Group> make_reading_group(std::shared_ptr<Run> run, const Circle& circle) {
  if (!run->share_memory(circle.members)) return nullptr;
  return std::make_shared<ReadingGroup>(std::move(run), circle);
}

}  // namespace nanofsdp::comm
