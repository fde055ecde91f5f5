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
/// @brief The few things that one operating system does in its own way; lessons/platforms.md lists
/// them. POSIX is used directly.

/// Threads of this program, not of an emulator that runs it; 1 where the system does not tell.
int count_threads();

/// In a new child: ends it by SIGKILL when its parent dies, however it dies.
/// @param parent its process id, taken before the fork. Linux only
void die_with_parent(pid_t parent);

/// Runs `work` on a thread whose own threads are scheduled as background work (SCHED_BATCH). Gloo
/// polls in such a thread; if it were scheduled like the others it would preempt the very thread
/// whose lock it waits for and spin until the next clock tick, 4 ms later. Linux only.
void run_with_background_threads(const std::function<void()>& work);

/// Of this process's executable: equal only for the same program. 0 where the system does not tell.
std::uint64_t program_fingerprint();

/// Keeps freed memory for the next allocation. By default the C library gives large blocks back to
/// the system, which clears every page anew; every matrix product takes such a block.
void keep_freed_memory();

/// Gives it back after all, once: before a large block that what was freed cannot serve.
void give_back_freed_memory();

/// Equal for processes that can call each other by their process ids; empty where this is unknown.
std::string process_space();

/// A file in memory, without a name, all zeros: its pages take memory when they are written. Only
/// this user's processes can open it.
/// @return its descriptor; -1 with errno where the system has no such files
int open_shared_file(std::size_t bytes);

/// The same file, of another process of this user, which has it open under that number; -1 with
/// errno.
int open_file_of(pid_t process, int descriptor);

/// Gives the pages of a shared file back, here and in every process. They read as zeros.
/// @return whether the system says so; if not, they are as they were
bool give_back_pages(void* first, std::size_t bytes) noexcept;

/// Says whether a core dump of this process has these pages, as it has all memory at first. Of a
/// shared file it would have every page, and the dump would take memory for each. Linux only.
void put_into_core_dumps(void* first, std::size_t bytes, bool whether) noexcept;

/// Sleeps while `word` is `seen`, until a thread calls wake(), at most for `limit`. It may also
/// wake up without a call. The word may lie in a shared file: then any process may call wake().
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit);
/// Wakes all threads that sleep for the word.
void wake(const std::atomic<std::uint32_t>& word);

/// A new file in `directory` without a name, which is gone with the process, so that half a file is
/// never found. Its descriptor; -1 with errno where the system or file system has no such files.
int open_nameless(const std::string& directory);

/// Gives such a file its name, which no other may have. Whether it worked; if not, see errno.
bool name_file(int descriptor, const std::string& path);

/// What decides how fast TCP sends: "cubic"; "unknown" where the system does not tell.
std::string congestion_control();

/// "signal 9 (SIGKILL)"
std::string name_signal(int number);

}  // namespace nanofsdp
