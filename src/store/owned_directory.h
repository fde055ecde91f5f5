#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace nanofsdp::store {

/// @file
/// @brief A directory of saved files has one owner, and what another run saved there is not lost.

/// Holds a directory for one run, and makes the directory if there is none. If two runs saved into
/// one directory, they would damage each other's checkpoints.
///
/// The run locks the empty file DIR/run.lock (fcntl()'s F_SETLK). The system keeps the lock while
/// the process lives, also while the process is stopped, and drops the lock when the process ends
/// in any way; the file stays. The lock holds among the processes of one machine, and among
/// machines whose file system has locks for all of them. NFS has such locks, unless it is mounted
/// with `nolock` or `local_lock`. On a file system without any locks, a run goes on without one.
/// The lock is the process's: if a process holds one directory twice, the end of either owner frees
/// it. If another process holds it, the function waits a second, because the ranks of a run that
/// was killed may be about to end.
/// @returns an owner: when the last copy of it is destroyed, the directory is free
/// @throws UsageError naming the other process; or if the directory cannot be made or written
std::shared_ptr<void> own_directory(const std::string& path);

/// Moves files and directories into a new directory, DIR/set_aside.N, with the first N from 1 up
/// that is free.
/// @param names of the files in `directory`; names that are not there are left out
/// @returns the new directory; empty if there was nothing to move, and then no directory is made
/// @throws std::filesystem::filesystem_error if the system refuses
std::filesystem::path set_aside(const std::filesystem::path& directory,
                                const std::vector<std::string>& names);

}  // namespace nanofsdp::store
