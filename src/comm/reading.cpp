#include "comm/reading.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "base/patience.h"
#include "base/platform.h"
#include "base/transfer.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = Operation::Kind;
using namespace std::chrono_literals;

constexpr std::size_t kInlineBytes = 1 << 16;  // the longest operand that is copied to a slot

// A process that waits first yields its core again and again, because sleeping and waking take
// longer than many waits.
constexpr auto kYield = 50us;

// Twice the number of times that ranks have come, plus one if the group has failed.
using Count = std::uint32_t;
constexpr Count kOnce = 2, kFailed = 1;

// A rank's slot. All its bytes may be zero at first. In shared memory, room for the inline operands
// of two calls lies behind it.
struct Slot {
  alignas(64) std::atomic<Count> count{0};    // the group's, on the first rank's slot
  alignas(64) std::atomic<Count> arrived{0};  // the goal of its rank when it last arrived
  std::atomic<bool> left{false};              // whether its rank will not come again
  std::array<char, 256> why{};                // the reason; empty if it has simply left
  std::atomic<int> ranks{0}, gone{0};  // ranks of the group; ranks that read no slot any more
  Event ready{}, done{};               // on a GPU: its operand is ready; it has read all operands
  // The rank's calls up to this one, and the operand's place from here. Calls use them in turn.
  alignas(64) std::array<History, 2> calls{};
  std::array<Address, 2> operands{};
};
static_assert(std::atomic<Count>::is_always_lock_free);

std::vector<Slot*> slots_of(const RunState& run, const GroupSpec& spec) {
  std::vector<Slot*> slots;
  for (std::size_t i = 0; i < spec.members.size(); ++i) {
    const auto part = std::ranges::find(run.sharers, spec.members[i]) - run.sharers.begin();
    void* const slot = run.memory ? run.memory->at(static_cast<int>(part), spec.slots[i])
                                  : pointer_to(spec.slots[i]);
    slots.push_back(static_cast<Slot*>(slot));
  }
  return slots;
}

class ReadingGroup final : public Group {
 public:
  ReadingGroup(std::shared_ptr<RunState> run, const GroupSpec& spec)
      : Group(spec.rank, static_cast<int>(spec.members.size())),
        memory_(run->memory.get()),
        slots_(slots_of(*run, spec)),
        mine_(*slots_[spec.rank]),
        count_(slots_[0]->count),
        peers_(run, spec, [this](const std::string& why) { leave(why); }) {
    mine_.ranks = size;
    if (memory_ == nullptr) return;
    copy_ = Buffer(*run->ledger, MemoryClass::communication, 0, Device::cpu, Buffer::Use::whole,
                   memory_);
  }

  ~ReadingGroup() override {
    peers_.abort("");
    const std::lock_guard lock(peers_.run->mutex);  // no rank is in leave() now
    for (Slot* slot : slots_) ++slot->gone;
  }

  bool serves(Device device) const override { return device == Device::cpu || memory_ == nullptr; }

  void run(Stream& stream, const Operation& operation, Tensor in, Tensor out) override {
    // With one rank, the sum and the average are the operand.
    if (size == 1 && in.dtype() == out.dtype())
      return peers_.check(), copy_within(stream, in.raw(), out);
    meet(stream, operation, in);
    const Clock::time_point met_at = Clock::now();
    try {
      read(stream, operation, in, out);
    } catch (...) {  // a GPU's error: the other threads wait until this one comes again
      if (memory_ == nullptr) arrive(/*even_if_failed=*/true);
      throw;
    }
    if (!is_inline(in)) depart(stream, operation, met_at);
  }

  std::shared_ptr<Group> split(int color) override {
    return make_reading_group(peers_.run, comm::split(*this, peers_, color));
  }

  void work(int begins, const std::string& at) override { peers_.run->work(begins, at); }
  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }

 private:
  // The entry of a slot that this call uses.
  std::size_t turn() const { return peers_.calls().back().sequence % 2; }

  // Whether the operands of this call are copied to the slots.
  bool is_inline(const Tensor& in) const { return memory_ && in.bytes() <= kInlineBytes; }

  // Says where the operand lies, and waits until all ranks have come with equal operations. After
  // that this rank can read the operands of all ranks, until it departs.
  void meet(Stream& stream, const Operation& operation, const Tensor& in) {
    peers_.begin(operation);
    mine_.calls[turn()] = peers_.calls();
    const void* const operand = publish(operation, in);
    mine_.operands[turn()] = address_of(operand) - address_of(&mine_);
    if (stream.device() != Device::cpu) mine_.ready = stream.record();
    arrive();
    for (int peer = 0; peer < size; ++peer)
      peers_.require_same_call(peer, slots_[peer]->calls[turn()]);
  }

  // Returns the place where the others find the operand, and copies it there if necessary.
  const void* publish(const Operation& operation, const Tensor& in) {
    const bool listens = operation.kind == Kind::broadcast && operation.root != rank;
    if (listens || in.bytes() == 0) return nullptr;
    void* place = in.raw();
    if (is_inline(in)) {
      place = reinterpret_cast<std::byte*>(&mine_ + 1) + turn() * kInlineBytes;
    } else if (memory_ != nullptr && !memory_->owns(place)) {
      copy_.grow(in.bytes());
      place = copy_.tensor({0}).raw();
    }
    if (place != in.raw()) std::memcpy(place, in.raw(), in.bytes());
    return place;
  }

  // The place where this rank can read a rank's operand.
  const std::byte* operand_of(int peer, const Tensor& in) const {
    const Address place = address_of(slots_[peer]) + slots_[peer]->operands[turn()];
    return static_cast<std::byte*>(pointer_to(peer == rank ? in.address() : place));
  }

  // On a GPU, later work of the stream comes after these events of all ranks.
  void wait_for(Stream& stream, Event Slot::*event) {
    if (stream.device() == Device::cpu) return;
    for (const Slot* peer : slots_) stream.wait(peer->*event);
  }

  // Copies or adds the data that this rank needs.
  void read(Stream& stream, const Operation& operation, const Tensor& in, const Tensor& out) {
    wait_for(stream, &Slot::ready);
    const std::int64_t n = in.numel();
    if (operation.kind == Kind::reduce_scatter) {
      // In place, a rank writes its own chunk of `in`, which no other rank reads.
      std::vector<const void*> chunks;
      for (int peer = 0; peer < size; ++peer)
        chunks.push_back(operand_of(peer, in) + rank * (in.bytes() / size));
      sum_in_rank_order(stream, chunks, in.dtype(), out, operation.reduce);
    } else if (operation.kind == Kind::broadcast) {
      copy_within(stream, operand_of(operation.root, in), out);
    } else {
      for (int peer = 0; peer < size; ++peer)
        copy_within(stream, operand_of(peer, in), out.slice(peer * n, n));
    }
    if (stream.device() != Device::cpu) mine_.done = stream.record();
  }

  // Waits until no rank reads any more. Threads also wait if the group has failed, because an
  // operand might be freed while another thread copies it. Processes do not: they read zeros from
  // freed memory, and a lost process would never come.
  // @param met_at when all ranks had come to the first meeting
  void depart(Stream& stream, const Operation& operation, Clock::time_point met_at) {
    arrive(/*even_if_failed=*/memory_ == nullptr);
    wait_for(stream, &Slot::done);
    // With a pretended link, the bytes of the other ranks take time.
    const int chunks = operation.kind == Kind::broadcast ? operation.root != rank : size - 1;
    const auto bytes = static_cast<double>(operation.count) * size_of(operation.dtype);
    const auto time = peers_.run->link.time_for(chunks * bytes);
    if (stream.device() != Device::cpu) return stream.hold(time);
    const auto arrival = met_at + std::chrono::duration_cast<Clock::duration>(time);
    while (Clock::now() < arrival && (count_ & kFailed) == 0)
      std::this_thread::sleep_until(std::min(arrival, Clock::now() + 50ms));
  }

  // Counts this rank, and waits until all ranks have come as often.
  // @param even_if_failed whether it must do so even if the group has failed
  void arrive(bool even_if_failed = false) {
    goal_ += kOnce * static_cast<Count>(size);
    Count seen = count_;
    do {
      if ((seen & kFailed) != 0 && !even_if_failed) throw failure(/*timed_out=*/false);
    } while (!count_.compare_exchange_weak(seen, seen + kOnce));
    mine_.arrived = goal_;
    if (is_reached(seen + kOnce)) return wake(count_);
    Patience patience(peers_.run->timeout);
    const auto begin = Clock::now();
    while (!is_reached(seen = count_)) {
      const bool failed = (seen & kFailed) != 0;
      // A rank may come while the others answer the roll call.
      const auto in_vain = [&] { return peers_.run->ends(patience) && !is_reached(count_); };
      if (!even_if_failed && (failed || in_vain())) {
        const CommError error = failure(/*timed_out=*/!failed);
        // If all threads have come meanwhile, they may be reading, and the call has not failed.
        if (memory_ != nullptr || !is_reached(count_ |= kFailed)) throw error;
      } else if (memory_ != nullptr && Clock::now() - begin < kYield) {
        std::this_thread::yield();
      } else {
        sleep_while(count_, seen, Patience::kLook);
      }
    }
  }

  bool is_reached(Count count) const { return static_cast<std::int32_t>(count - goal_) >= 0; }

  // Finds out why not all ranks have come. The group has failed then.
  CommError failure(bool timed_out) {
    std::vector<int> whom;
    std::string told;
    for (int peer = 0; peer < size; ++peer) {
      const Slot& slot = *slots_[peer];
      if (timed_out ? is_reached(slot.arrived) : !slot.left) continue;
      whom.push_back(peer);
      if (slot.left && told.empty()) told = slot.why.data();
    }
    return peers_.failure(whom, timed_out, "it left", told);
  }

  // Says that this rank will not come again, and wakes all that wait, in every process.
  void leave(const std::string& why) {
    why.copy(mine_.why.data(), mine_.why.size() - 1);  // the last character stays 0
    mine_.left = true;
    count_ |= kFailed;
    wake(count_);
  }

  SharedMemory* const memory_;      // null if ranks are threads
  const std::vector<Slot*> slots_;  // the ranks' slots
  Slot& mine_;                      // the slot of this rank
  std::atomic<Count>& count_;       // the counter of the group
  Count goal_ = 0;                  // the count when all have come
  Buffer copy_;                     // a copy of a large operand that lies elsewhere
  Peers peers_;  // the last member, because it may wake waiting ranks as soon as it exists
};

}  // namespace

std::uint64_t take_slot(RunState& run) {
  const std::lock_guard lock(run.mutex);
  std::erase_if(run.slots, [&](const std::shared_ptr<void>& memory) {
    const Slot& slot = *static_cast<const Slot*>(memory.get());
    const bool unread = slot.ranks > 0 && slot.gone == slot.ranks;
    if (unread && run.memory) run.memory->release(memory.get());
    return unread;
  });
  if (!run.memory) return address_of(run.slots.emplace_back(std::make_shared<Slot>()).get());
  // A peer may have come to the slot already. The memory has only zeros, and no code writes zeros
  // there again. If the run ends here, the slot stays for peers that still read it.
  void* const slot = run.memory->allocate(sizeof(Slot) + 2 * kInlineBytes);
  run.slots.emplace_back(slot, [](void*) {});
  return run.memory->offset_of(slot);
}

GroupSpec split(Group& group, const Peers& peers, int color) {
  const auto stream = make_compute_stream(Device::cpu, /*threads=*/1);
  const auto gather = [&](std::uint64_t mine) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size));
    // The operands are bytes, not numbers.
    group.run(*stream, {.kind = Kind::split}, Tensor(&mine, {1}, DType::float64),
              Tensor(all.data(), {group.size}, DType::float64));
    return all;
  };
  const std::vector<std::uint64_t> colors = gather(static_cast<std::uint64_t>(color));
  GroupSpec spec;
  for (int i = 0; i < group.size; ++i) {
    if (colors[i] != colors[group.rank]) continue;
    if (i == group.rank) spec.rank = static_cast<int>(spec.members.size());
    spec.members.push_back(peers.members[i]);
  }
  const bool share = std::ranges::includes(peers.run->sharers, spec.members);
  const std::vector<std::uint64_t> slots = gather(share ? take_slot(*peers.run) : 0);
  for (int i = 0; i < group.size; ++i)
    if (share && colors[i] == colors[group.rank]) spec.slots.push_back(slots[i]);
  return spec;
}

std::shared_ptr<Group> make_reading_group(std::shared_ptr<RunState> run, const GroupSpec& spec) {
  return std::make_shared<ReadingGroup>(std::move(run), spec);
}

}  // namespace nanofsdp::comm
