#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

namespace nanofsdp {

/// @file
/// @brief The few functions that each operating system needs in its own form; lessons/platforms.md
/// lists them. All other code uses POSIX directly.

/// The number of threads of this program; threads of an emulator that runs it do not count. 1 if
/// the system does not tell.
int count_threads();

/// The number of cores that this process may use, at least 1. `taskset`, a container or a batch
/// system may allow it some of the machine's cores only, or a part of their time, as
/// `docker run --cpus=2` does. Linux only; elsewhere it counts all cores.
/// @param root the system's files; a test gives its own
int count_cores(const std::string& root = "");

/// A new child calls this: if its parent dies in any way, SIGKILL ends the child. Linux only.
/// @param parent the parent's process id, taken before the fork
void die_with_parent(pid_t parent);

/// Runs `work` on a thread whose own threads are scheduled as background work (SCHED_BATCH). Gloo
/// polls in such a thread; if the system scheduled it like the others, it would preempt the thread
/// that holds the lock for which it waits, and spin until the next clock tick, 4 ms later. Linux
/// only.
void run_with_background_threads(const std::function<void()>& work);

/// The fingerprint of this process's executable, which is equal only for the same program. 0 if the
/// system does not tell.
std::uint64_t program_fingerprint();

/// Keeps freed memory for the next allocation. By default the C library gives large blocks back to
/// the system, and the system clears every page of a new block. Every matrix product takes such a
/// block.
void keep_freed_memory();

/// Gives freed memory back to the system once, in spite of keep_freed_memory(). Callers do this
/// before they allocate a large block for which freed memory is no use.
void give_back_freed_memory();

/// A text that is equal for processes that can address each other by their process ids. It is empty
/// if this is unknown.
std::string process_space();

/// Opens a file in memory, without a name and full of zeros. A page of it takes memory when it is
/// first written. Only this user's processes can open the file.
/// @return its descriptor; -1 with errno if the system has no such files
int open_shared_file(std::size_t bytes);

/// Opens the same file in another process of this user, which has it open under `descriptor`.
/// Returns -1 with errno if that fails.
int open_file_of(pid_t process, int descriptor);

/// Gives pages of a shared file back to the system, for all processes. The pages then read as
/// zeros.
/// @return whether the system says so; if not, the pages have not changed
bool give_back_pages(void* first, std::size_t bytes) noexcept;

/// Says whether a core dump of this process has these pages. By default a dump has all memory. It
/// would have every page of a shared file, and take memory for each. Linux only.
void put_into_core_dumps(void* first, std::size_t bytes, bool whether) noexcept;

/// Sleeps while `word` is `seen`, until a thread calls wake(), or `limit` is over. The function may
/// also return earlier. The word may lie in a shared file: then any process may call wake().
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit);
/// Wakes all threads that sleep because of this word.
void wake(const std::atomic<std::uint32_t>& word);

/// The name of the algorithm that decides how fast TCP sends, such as "cubic"; "unknown" if the
/// system does not tell.
std::string congestion_control();

/// The name of a signal, such as "signal 9 (SIGKILL)".
std::string name_signal(int number);

}  // namespace nanofsdp
