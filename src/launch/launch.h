#pragma once

#include <functional>
#include <string>

#include "launch/rendezvous.h"
#include "launch/store.h"

namespace nanofsdp::launch {

/// @file
/// @brief The room `launch`: how ranks come together. They are processes, started together here, or
/// by others on several machines.
///
/// Comes in: how many ranks, or a launcher's environment (rendezvous.h). Goes out: a Store in each
/// rank (store.h), by which ranks exchange addresses and hear that one was lost; and one outcome.
///
/// The launcher forks a child a rank before any thread exists (Gloo and thread pools do not survive
/// a fork), waits, and when one fails ends the others: SIGTERM, two seconds later SIGKILL. Of all
/// the errors that one failure sets off, the first cause is told, the consequences are not.

/// What a rank does, with its place in the run.
using Body = std::function<void(Store& store)>;

/// How a run of ranks ended.
struct Outcome {
  int exit_code = 0;  ///< 0, 1, 2 for a UsageError, 128 + n for signal n, as shells count
  /// The first cause; empty if there is none or Ctrl-C was it. One line; where ranks disagree or
  /// one does not come, indented lines follow with what they called before.
  std::string message;
};

/// Runs `body` in `size` forked processes and waits for all of them.
///
/// A child ends where its body ends: it flushes stdio and leaves through _exit(), the one place
/// below main() that ends a process, because the stack it was forked with belongs to the parent.
/// SIGINT, SIGTERM and SIGHUP to the parent end all ranks; if the parent is killed, the kernel
/// kills the ranks (on Linux).
/// @param patience how long a rank waits for rank 0 at the start
/// @throws Error if this process has more than one thread, or cannot fork
Outcome run_processes(int size, const Body& body, std::chrono::seconds patience = kPatience);

/// run_processes for main(): prints the message to stderr and returns the exit code.
int launch_processes(int size, const Body& body, std::chrono::seconds patience = kPatience);

/// For main(), when others have started the ranks: this process is one, runs `body` and tells its
/// own error on stderr, which names the rank that failed first. @returns the exit code
int join(const Rendezvous& rendezvous, const Body& body);

}  // namespace nanofsdp::launch
