#include "comm/shared.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "base/platform.h"
#include "comm/reading.h"
#include "comm/self.h"

namespace nanofsdp::comm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kMailBytes = 1 << 16;

// Who waits first offers its core to others, again and again: to sleep and be woken takes longer
// than many a wait. Then it sleeps, and looks now and then whether its group has failed, because
// the wake-up may come between its look and its sleep.
constexpr auto kYield = 50us;
constexpr auto kNap = 50ms;

// What a rank says of one call.
struct Letter {
  History calls{};       // up to this one
  std::uint64_t in = 0;  // where its operand lies in its part
};

// In shared memory, zero at first. Calls take the letters and mails in turn.
struct Desk {
  alignas(64) std::atomic<std::uint32_t> came;  // how often the rank has come, to meet or to part
  std::atomic<bool> left;                       // it will not come again
  alignas(64) std::array<Letter, 2> letters;
  alignas(64) std::array<std::array<std::byte, kMailBytes>, 2> mails;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// In which part of the memory each of the ranks has what is its own.
std::vector<int> parts_of(const Run& run, const std::vector<int>& ranks) {
  std::vector<int> parts;
  for (const int rank : ranks) {
    const auto found = std::ranges::find(run.sharers, rank);
    parts.push_back(static_cast<int>(found - run.sharers.begin()));
  }
  return parts;
}

std::vector<Desk*> desks_of(const Run& run, const Circle& circle) {
  const std::vector<int> parts = parts_of(run, circle.members);
  std::vector<Desk*> desks;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    desks.push_back(reinterpret_cast<Desk*>(run.memory->at(parts[i], circle.desks[i])));
  }
  return desks;
}

class SharedGroup final : public ReadingGroup {
 public:
  SharedGroup(Ledger& ledger, std::shared_ptr<Run> run, Circle circle)
      : ReadingGroup(circle.rank, static_cast<int>(circle.members.size())),
        ledger_(ledger),
        memory_(*run->memory),
        parts_(parts_of(*run, circle.members)),
        desks_(desks_of(*run, circle)),
        open_(circle.members.size()),
        peers_(run, circle.members, [this] { cut(); }) {}

  ~SharedGroup() override { cut(); }

  std::shared_ptr<Group> split(const Operation& operation, int color) override {
    const Seat mine{color, take_desk(*peers_.run())};
    std::vector<Seat> seats;
    for (const void* theirs : come(operation, &mine, sizeof mine)) {
      seats.push_back(*static_cast<const Seat*>(theirs));
    }
    return make_shared_group(ledger_, peers_.run(), circle_of(seats, rank_, peers_.members()));
  }

  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }

 private:
  const std::vector<const void*>& meet(Stream&, const Operation& operation, Tensor in) override {
    return come(operation, in.raw(), in.bytes());
  }

  void part(Stream&, std::size_t) override {
    if (mailed_) return;
    named([&] {
      // Nobody leaves before all have parted, unless the group fails. Then an operand that this
      // rank was reading may be gone.
      for (int peer = 0; peer < size_; ++peer) {
        if (desks_[peer]->left) peers_.fail(peer, false, "it left");
      }
      meet_all();
    });
  }

  // As meet().
  const std::vector<const void*>& come(const Operation& operation, const void* in,
                                       std::size_t bytes) {
    append(calls_, operation);
    turn_ = 1 - turn_;
    mailed_ = bytes <= kMailBytes;
    named([&] {
      peers_.check();
      desks_[rank_]->letters[turn_] = {calls_, lay_open(operation, in, bytes)};
      meet_all();
    });
    for (int peer = 0; peer < size_; ++peer) {
      const Letter& letter = desks_[peer]->letters[turn_];
      check_agreement(peer, letter.calls);
      open_[peer] = peer == rank_ ? in : memory_.at(parts_[peer], letter.in);
    }
    return open_;
  }

  // Where the others find what this rank lays open: nothing, in another's broadcast.
  std::uint64_t lay_open(const Operation& operation, const void* in, std::size_t bytes) {
    if (bytes == 0 || (operation.kind == Operation::Kind::broadcast && operation.root != rank_)) {
      return 0;
    }
    if (!mailed_ && memory_.owns(in)) return memory_.offset_of(in);
    void* to = desks_[rank_]->mails[turn_].data();
    if (!mailed_) {
      if (copy_.bytes() < bytes) {
        copy_ = Buffer();  // first give back, then take
        copy_ = Buffer(ledger_, MemoryClass::communication, bytes, Device::cpu, Buffer::Use::whole,
                       &memory_);
      }
      to = copy_.tensor({1}, DType::bfloat16).raw();
    }
    std::memcpy(to, in, bytes);
    return memory_.offset_of(to);
  }

  // Counts this rank and waits until the others have come as often.
  void meet_all() {
    std::atomic<std::uint32_t>& mine = desks_[rank_]->came;
    const std::uint32_t times = mine.fetch_add(1) + 1;
    wake(mine);
    for (int i = 1; i < size_; ++i) wait_for((rank_ + i) % size_, times);
  }

  void wait_for(int peer, std::uint32_t times) {
    const Desk& theirs = *desks_[peer];
    const auto begin = Clock::now(), until = begin + peers_.run()->timeout;
    while (true) {
      const bool left = theirs.left;  // before: it may come and leave
      const std::uint32_t seen = theirs.came;
      if (static_cast<std::int32_t>(seen - times) >= 0) return;
      peers_.check();
      if (left) peers_.fail(peer, false, "it left");
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      if (rest <= 0ms) peers_.fail(peer, true, "");
      if (Clock::now() - begin < kYield) {
        std::this_thread::yield();
        continue;
      }
      sleep_while(theirs.came, seen, std::min<std::chrono::milliseconds>(rest, kNap));
    }
  }

  void check_agreement(int peer, const History& theirs) {
    if (theirs.back() == calls_.back()) return;
    peers_.abort("its ranks disagreed");
    const std::vector<int>& members = peers_.members();
    throw mismatch_error(members[rank_], calls_, members[peer], theirs);
  }

  // This rank will not come again: wakes all who wait, here and there.
  void cut() {
    desks_[rank_]->left = true;
    for (const Desk* desk : desks_) wake(desk->came);
  }

  // Names the call in the errors of `wait`.
  template <class Wait>
  void named(const Wait& wait) {
    try {
      wait();
    } catch (const WaitError& e) {
      throw operation_error(e.kind, peers_.members()[rank_], calls_, e.what);
    }
  }

  Ledger& ledger_;
  SharedMemory& memory_;
  const std::vector<int> parts_;    // in shared memory, of the ranks
  const std::vector<Desk*> desks_;  // theirs
  History calls_{};
  std::size_t turn_ = 0;           // of the letters and mails: 0 or 1
  bool mailed_ = false;            // whether the operands of this call lie on desks
  std::vector<const void*> open_;  // the ranks' operands
  Buffer copy_;                    // of a large one from elsewhere
  Peers peers_;                    // last: may wake who sleeps from now on
};

}  // namespace

std::uint64_t take_desk(const Run& run) {
  return run.memory ? run.memory->offset_of(run.memory->allocate(sizeof(Desk))) : 0;
}

Circle circle_of(const std::vector<Seat>& seats, int rank, const std::vector<int>& members) {
  Circle circle;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (static_cast<int>(i) == rank) circle.rank = static_cast<int>(circle.members.size());
    if (seats[i].color != seats[rank].color) continue;
    circle.members.push_back(members[i]);
    circle.desks.push_back(seats[i].desk);
  }
  return circle;
}

std::shared_ptr<Group> make_shared_group(Ledger& ledger, std::shared_ptr<Run> run, Circle circle) {
  if (circle.members.size() == 1) return make_self_group();
  return std::make_shared<SharedGroup>(ledger, std::move(run), std::move(circle));
}

}  // namespace nanofsdp::comm
