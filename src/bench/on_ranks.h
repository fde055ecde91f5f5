#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/context.h"
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
  keep_freed_memory();  // a training does this too
  // A rank that is a process has memory of its own, so the result goes through a file.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  NANOFSDP_CHECK(file != nullptr, .what = "result of ranks", .expected = "a temporary file",
                 .got = "none");
  const comm::RankBody rank = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const Result mine = body(context, std::move(world));
    if (context.rank == 0) std::fwrite(&mine, sizeof mine, 1, file.get());
  };
  launch::Outcome outcome;
  if (options.backend == comm::Backend::local) {
    comm::launch_threads(options.ranks, options.threads, rank);
  } else {
    outcome = launch::run_processes(
        options.ranks, [&](launch::Store& store) { comm::run_rank(store, options, rank); });
  }
  if (outcome.exit_code == 2) throw UsageError({.what = outcome.message});
  Result result{};
  std::rewind(file.get());
  if (outcome.exit_code != 0 || std::fread(&result, sizeof result, 1, file.get()) != 1) {
    throw std::runtime_error(!outcome.message.empty()
                                 ? outcome.message
                                 : "ended by " + name_signal(outcome.exit_code - 128));
  }
  return result;
}

}  // namespace nanofsdp::bench
