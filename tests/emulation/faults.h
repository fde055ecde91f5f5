#pragma once

#include <atomic>

/// @file
/// @brief The n-th call of CUDA, cuBLASLt or NCCL fails in one thread, and the objects are counted
/// that calls have made and none has destroyed.
///
/// A call that makes or enqueues something does nothing when it fails. A call that waits, frees or
/// destroys does its work, and then returns an error. A call that asks whether work is done counts
/// only if the work is done, so the number of calls does not depend on time.

namespace emulation {

/// After this call, the calls of this thread count, and the n-th one fails. With n = 0 none fails.
/// @param later whether all later calls of the thread fail, too, as they do on a GPU whose kernel
///   has crashed
void fail_nth(long n, bool later = false);

/// The number of calls of this thread since fail_nth().
long counted();

/// Whether a call of any thread has failed. A test sets it to false before the next run.
extern std::atomic<bool> has_failed;

/// Counts a call of this thread. Returns whether it must fail.
bool fails();

/// Streams, events, allocations of the device, communicators and cuBLASLt's objects that exist.
extern std::atomic<long> alive;

}  // namespace emulation
