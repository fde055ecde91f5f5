// Fibers jump to each other's stacks, and a fortified longjmp would refuse that.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "asan.h"
#include "cuda_runtime.h"
#include "shared_memory.h"

// The threads of a block are fibers of one host thread. Each runs until it waits for others. A
// fiber gets its stack from a context, once. After that, jumps enter and leave it, because
// exchanging contexts would take a system call. The fibers of a host thread serve all its launches,
// because new stacks would take more time than a small kernel does.

constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr std::size_t kStack = 256 * 1024;

// A meeting of `expected` fibers, which can be used again and again.
struct Meeting {
  unsigned expected = 0;
  unsigned arrived = 0;
  unsigned generation = 0;
};

struct Warp {
  Meeting meeting;
  std::array<std::uint64_t, kWarp> brought{};
  std::array<void*, kWarp> pointers{};
};

// The ways in which a launch may run. A kernel must not depend on them.
struct Manner {
  bool early_copies = false;     // at once, or only when a thread waits for them
  bool last_warp_first = false;  // whether the last warp or the first one runs ahead
};

// Each thread has its own random numbers, so its launches run in the same way in every run.
Manner toss() {
  thread_local std::minstd_rand dice;
  const unsigned coins = static_cast<unsigned>(dice()) / 1024;
  return {coins % 2 == 0, coins / 2 % 2 == 0};
}

struct Fiber {
  explicit Fiber(void (*begin)()) : stack(std::make_unique_for_overwrite<char[]>(kStack)) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    makecontext(&context, begin, 0);
  }

  std::unique_ptr<char[]> stack;
  ucontext_t context{};        // used until it is entered for the first time
  jmp_buf left{};              // the place at which it was left
  std::vector<Copy> copies{};  // copies that have begun
  dim3 thread;
  bool begun = false;
  bool done = false;           // whether the thread of this block has ended
  void* fake_stack = nullptr;  // for the address sanitizer
};

class Block;
thread_local Block* running = nullptr;
thread_local std::vector<std::unique_ptr<Fiber>> fibers;  // a block has the first of them

class Block {
 public:
  Block(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& thread)
      : thread_(thread),
        count_(block.x * block.y * block.z),
        warps_((count_ + 31) / 32),
        shared_(shared) {
    while (fibers.size() < count_) fibers.push_back(std::make_unique<Fiber>(&Block::begin));
    blockDim = block;
    gridDim = grid;
  }
  ~Block() {
    if (left_ > 0) fibers.clear();  // they are in the middle of a kernel that has failed
  }

  void run(dim3 index) {
    start(index);
    left_ = count_;
    while (left_ > 0) {
      bool any = false;
      for (std::size_t w = 0; w < warps_.size(); ++w) {
        while (advance(manner_.last_warp_first ? warps_.size() - 1 - w : w)) any = true;
      }
      if (!any) {
        throw std::runtime_error("emulated kernel: " + std::to_string(left_) + " of " +
                                 std::to_string(count_) +
                                 " threads wait at a barrier that the others never reach");
      }
    }
  }

  unsigned lane() const { return static_cast<unsigned>(current_) % kWarp; }

  void meet(Meeting& meeting) {
    moved_ = true;
    if (++meeting.arrived == meeting.expected) {
      meeting.arrived = 0;
      ++meeting.generation;
      return;
    }
    const unsigned generation = meeting.generation;
    while (meeting.generation == generation) leave();
    moved_ = true;
  }
  void meet_block() { meet(all_); }

  std::uint64_t exchange(std::uint64_t mine, unsigned from) {
    Warp& warp = warps_[current_ / kWarp];
    warp.brought[lane()] = mine;
    meet(warp.meeting);
    const std::uint64_t theirs = warp.brought[from];
    meet(warp.meeting);
    return theirs;
  }

  void* const* meet_warp(void* mine) {
    Warp& warp = warps_[current_ / kWarp];
    warp.pointers[lane()] = mine;
    meet(warp.meeting);
    return warp.pointers.data();
  }
  void part() { meet(warps_[current_ / kWarp].meeting); }

  SharedMemory& shared() { return shared_; }

  void copy_later(const Copy& copy) {
    shared_.begin(copy);
    if (manner_.early_copies) return shared_.perform(copy);
    fibers[current_]->copies.push_back(copy);
  }
  void wait_for_copies() {
    for (const Copy& copy : fibers[current_]->copies) shared_.perform(copy);
    fibers[current_]->copies.clear();
  }

  unsigned ballot(bool mine) {
    Warp& warp = warps_[current_ / kWarp];
    warp.brought[lane()] = mine;
    meet(warp.meeting);
    unsigned votes = 0;
    for (unsigned i = 0; i < warp.meeting.expected; ++i) {
      votes |= static_cast<unsigned>(warp.brought[i]) << i;
    }
    meet(warp.meeting);
    return votes;
  }

 private:
  void start(dim3 index) {
    const auto count = static_cast<unsigned>(count_);
    blockIdx = index;
    all_ = {.expected = count};
    for (unsigned w = 0; w < warps_.size(); ++w) {
      warps_[w].meeting = {.expected = std::min(kWarp, count - w * kWarp)};
    }
    for (unsigned i = 0; i < count; ++i) {
      Fiber& fiber = *fibers[i];
      fiber.thread = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
      fiber.done = false;
      fiber.copies.clear();
    }
    shared_.poison();
  }

  // Lets every thread of a warp run until it waits. Returns whether any of them has run.
  bool advance(std::size_t warp) {
    moved_ = false;
    const std::size_t end = std::min(count_, (warp + 1) * kWarp);
    for (current_ = warp * kWarp; current_ < end; ++current_) {
      const Fiber& fiber = *fibers[current_];
      if (fiber.done) continue;
      enter();
      if (error_) std::rethrow_exception(error_);
      if (!fiber.done) continue;
      moved_ = true;
      --left_;
    }
    return moved_;
  }

  // Runs in a fiber, for one block after another.
  static void begin() {
#ifdef EMULATION_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &running->host_bottom_, &running->host_size_);
#endif
    Fiber& self = *fibers[running->current_];
    self.begun = true;
    for (;;) {
      try {
        running->thread_();
      } catch (...) {
        running->error_ = std::current_exception();
      }
      self.done = true;
      leave();
    }
  }

  // Enters the current fiber from the host thread, until the fiber leaves.
  void enter() {
    Fiber& fiber = *fibers[current_];
    threadIdx = fiber.thread;
#ifdef EMULATION_ASAN
    void* host_fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&host_fake_stack, fiber.stack.get(), kStack);
#endif
    if (_setjmp(host_) == 0) {
      if (!fiber.begun) setcontext(&fiber.context);
      _longjmp(fiber.left, 1);
    }
#ifdef EMULATION_ASAN
    __sanitizer_finish_switch_fiber(host_fake_stack, nullptr, nullptr);
#endif
  }

  // Leaves the current fiber. When it is entered again, another block may be running.
  static void leave() {
    Fiber& fiber = *fibers[running->current_];
#ifdef EMULATION_ASAN
    __sanitizer_start_switch_fiber(&fiber.fake_stack, running->host_bottom_, running->host_size_);
#endif
    if (_setjmp(fiber.left) == 0) _longjmp(running->host_, 1);
#ifdef EMULATION_ASAN
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &running->host_bottom_, &running->host_size_);
#endif
  }

  const std::function<void()>& thread_;
  const std::size_t count_;  // its threads
  std::vector<Warp> warps_;
  SharedMemory shared_;
  const Manner manner_ = toss();
  Meeting all_;
  std::size_t current_ = 0, left_ = 0;
  bool moved_ = false;
  std::exception_ptr error_;
  jmp_buf host_{};
  [[maybe_unused]] const void* host_bottom_ = nullptr;
  [[maybe_unused]] std::size_t host_size_ = 0;
};

}  // namespace

unsigned lane() { return running->lane(); }
void block_barrier() { running->meet_block(); }
std::uint64_t exchange(std::uint64_t mine, unsigned from) { return running->exchange(mine, from); }
unsigned ballot(bool mine) { return running->ballot(mine); }
void* const* meet(void* mine) { return running->meet_warp(mine); }
void part() { running->part(); }
unsigned char* shared(unsigned address, unsigned bytes, unsigned alignment) {
  return running->shared().at(address, bytes, alignment);
}
void copy_later(unsigned to, const void* from, unsigned bytes, bool there) {
  running->copy_later({to, from, bytes, there});
}
void wait_for_copies() { running->wait_for_copies(); }
void trap() { throw std::runtime_error("emulated kernel: trap"); }

long long nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& thread) {
  Block all(grid, block, shared, thread);
  running = &all;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) all.run(dim3(x, y, z));
    }
  }
  running = nullptr;
}

}  // namespace emulation
