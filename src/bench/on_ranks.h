#pragma once

#include <sys/mman.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/platform.h"
#include "comm/local.h"
#include "comm/run_ranks.h"
#include "launch/launch.h"

namespace nanofsdp::bench {

/// Runs `body` on ranks, which are forked processes if the backend is Gloo, and returns the result
/// of rank 0's body.
/// @throws std::runtime_error, or a UsageError, with the first cause if a rank fails
template <class Result>
Result on_ranks(const comm::RanksOptions& options,
                const std::function<Result(Context&, std::unique_ptr<comm::Communicator>)>& body) {
  static_assert(std::is_trivially_copyable_v<Result>);
  // A rank that is a process has memory of its own, so the result lies in memory that both see.
  const auto unmap = [](Result* result) { munmap(result, sizeof *result); };
  const std::unique_ptr<Result, decltype(unmap)> result(static_cast<Result*>(
      mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
  if (result.get() == MAP_FAILED) throw std::bad_alloc();
  const comm::RankBody rank = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const Result mine = body(context, std::move(world));
    if (context.rank == 0) *result = mine;
  };
  launch::Outcome outcome;
  if (options.backend == comm::Backend::local) {
    comm::launch_threads(options.ranks, options.threads, rank);
  } else {
    outcome = launch::run_processes(
        options.ranks, [&](launch::Store& store) { comm::run_rank(store, options, rank); });
  }
  if (outcome.exit_code == 2) throw UsageError({.what = outcome.message});
  if (outcome.exit_code != 0)
    throw std::runtime_error(!outcome.message.empty()
                                 ? outcome.message
                                 : "ended by " + name_signal(outcome.exit_code - 128));
  return *result;
}

}  // namespace nanofsdp::bench
