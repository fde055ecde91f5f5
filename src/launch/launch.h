#pragma once

#include <functional>
#include <string>

#include "launch/store.h"

namespace nanofsdp::launch {

/// @file
/// @brief The room `launch`: how ranks come together. The ranks are processes. This room starts
/// them on one machine, or another launcher starts them on several machines.
///
/// Comes in: the number of ranks, or a launcher's environment (rendezvous.h).
/// Goes out: a Store in each rank (store.h), and one outcome. By the store, ranks exchange
/// addresses and hear that a rank was lost.
///
/// The launcher forks a child for each rank before any thread exists, because Gloo and thread pools
/// do not survive a fork. Then it waits. If a rank fails, it ends the others, with SIGTERM and two
/// seconds later with SIGKILL. One failure often causes many errors; the launcher tells the first.

/// The work of a rank. The store knows its place in the run.
using Body = std::function<void(Store& store)>;

/// How a run of ranks ended.
struct Outcome {
  int exit_code = 0;  ///< 0, 1, 2 for a UsageError, 128 + n for signal n, as shells count
  /// The error that came first. It is empty if all ranks succeeded, if Ctrl-C ended them, or if a
  /// rank wrote into a pipe whose reader had ended. It is one line if the text of the exception is
  /// one. If ranks disagree, or if one does not come, indented lines follow with their last calls.
  std::string message;
};

/// Runs `body` in `size` forked processes and waits for all of them.
///
/// A child ends when its body returns. It flushes stdio and calls _exit(), because the stack with
/// which it was forked belongs to the parent. No other place below main() ends a process. SIGINT,
/// SIGTERM and SIGHUP to the parent end all ranks, but not a signal that the parent ignores, as
/// nohup asks. If the parent is killed, the kernel kills the ranks (on Linux).
/// @param patience how long a rank waits for the others at the start and at the end
/// @throws Error if this process has more than one thread, or cannot fork
Outcome run_processes(int size, const Body& body, std::chrono::milliseconds patience = kPatience);

/// Runs `body` if another launcher has started the ranks and this process is one of them. If it
/// fails, the message names the rank that failed first.
Outcome join(const Rendezvous& rendezvous, const Body& body);

/// For main(): prints the message of the outcome to stderr, if there is one.
/// @returns the exit code
int tell(const Outcome& outcome);

}  // namespace nanofsdp::launch
