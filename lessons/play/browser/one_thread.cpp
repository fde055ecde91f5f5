#include "base/thread_pool.h"

/// @file
/// @brief The pool of a program with only one thread, in place of src/base/thread_pool.cpp: each
/// loop is one call. It makes the engine of the page smaller.

namespace nanofsdp {

ThreadPool::ThreadPool(int) {}
ThreadPool::~ThreadPool() = default;

void ThreadPool::run(std::int64_t n, std::int64_t /*grain*/, const RangeBody& body) { body(0, n); }

}  // namespace nanofsdp
