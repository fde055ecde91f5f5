#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <emscripten/fiber.h>
#include <pthread.h>

/// @file
/// @brief Threads for a program with only one thread: the few functions of pthread.h that C++'s
/// library calls.
///
/// A page that is opened from a file may not share memory between threads, so a browser runs all
/// ranks and their streams in turn. Each thread is a fiber: a function with a stack of its own. A
/// fiber runs until it has to wait, then the next one that can run takes over. Order, values and
/// bytes are those of threads. Only the time differs, and the page shows the times of the simulated
/// clock.
///
/// The library's sources do not change: the linker replaces `f` by `__wrap_f`.

namespace {

constexpr std::size_t kStackBytes = 128 << 10;  // bytes for local variables
constexpr std::size_t kFramesBytes = 32 << 10;  // bytes for waiting calls, as asyncify keeps them

struct Fiber {
  emscripten_fiber_t context{};
  std::unique_ptr<std::byte[]> stack, frames = std::make_unique<std::byte[]>(kFramesBytes);
  void* (*body)(void*) = nullptr;
  void* argument = nullptr;
  const void* waits_for = nullptr;  // a condition, or the fiber that it joins
  bool timed = false;               // whether its wait has an end
  bool ended = false;
};

struct Scheduler {
  Scheduler() {
    emscripten_fiber_init_from_current_context(&main.context, main.frames.get(), kFramesBytes);
  }
  Fiber main;
  Fiber* current = &main;
  std::deque<Fiber*> ready;
  std::vector<Fiber*> waiting;  // in the order in which they came
};

Scheduler& scheduler() {
  static Scheduler scheduler;
  return scheduler;
}

void wake(const void* condition, bool all) {
  auto& [main, current, ready, waiting] = scheduler();
  for (std::size_t i = 0; i < waiting.size();) {
    if (waiting[i]->waits_for != condition) {
      ++i;
      continue;
    }
    ready.push_back(waiting[i]);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    if (!all) return;
  }
}

// No fiber can run, so the wait with the earliest end is over. @returns its fiber
Fiber* let_time_pass() {
  auto& waiting = scheduler().waiting;
  for (auto at = waiting.begin(); at != waiting.end(); ++at) {
    if (!(*at)->timed) continue;
    Fiber* const fiber = *at;
    waiting.erase(at);
    fiber->waits_for = nullptr;
    return fiber;
  }
  std::fputs("fibers: all of them wait for each other\n", stderr);
  std::abort();
}

void run_next() {
  auto& [main, current, ready, waiting] = scheduler();
  if (ready.empty()) ready.push_back(let_time_pass());
  Fiber* const next = ready.front();
  ready.pop_front();
  Fiber* const before = current;
  current = next;
  if (before != next) emscripten_fiber_swap(&before->context, &next->context);
}

// @returns whether a fiber has called wake(): with `timed`, the wait may also simply end
bool wait(const void* condition, bool timed) {
  Fiber* const me = scheduler().current;
  me->waits_for = condition;
  me->timed = timed;
  scheduler().waiting.push_back(me);
  run_next();
  return me->waits_for != nullptr;
}

void run(void* argument) {
  auto* const fiber = static_cast<Fiber*>(argument);
  fiber->body(fiber->argument);
  fiber->ended = true;
  wake(fiber, /*all=*/true);
  run_next();  // this never returns
}

// Whether a mutex is held. A new mutex has only zeros, and its first byte says whether it is held.
bool& held(pthread_mutex_t* mutex) { return *reinterpret_cast<bool*>(mutex); }

}  // namespace

extern "C" {

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*body)(void*),
                          void* argument) {
  auto* const fiber = new Fiber;
  fiber->stack = std::make_unique<std::byte[]>(kStackBytes);
  fiber->body = body;
  fiber->argument = argument;
  emscripten_fiber_init(&fiber->context, run, fiber, fiber->stack.get(), kStackBytes,
                        fiber->frames.get(), kFramesBytes);
  scheduler().ready.push_back(fiber);
  *thread = reinterpret_cast<pthread_t>(fiber);
  return 0;
}

int __wrap_pthread_join(pthread_t thread, void**) {
  auto* const fiber = reinterpret_cast<Fiber*>(thread);
  while (!fiber->ended) wait(fiber, /*timed=*/false);
  delete fiber;
  return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  while (held(mutex)) {
    scheduler().ready.push_back(scheduler().current);
    run_next();
  }
  held(mutex) = true;
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  held(mutex) = false;
  return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  __wrap_pthread_mutex_unlock(mutex);
  wait(condition, /*timed=*/false);
  return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec*) {
  __wrap_pthread_mutex_unlock(mutex);
  const bool woken = wait(condition, /*timed=*/true);
  __wrap_pthread_mutex_lock(mutex);
  return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t* condition) {
  wake(condition, /*all=*/false);
  return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t* condition) {
  wake(condition, /*all=*/true);
  return 0;
}

}  // extern "C"
