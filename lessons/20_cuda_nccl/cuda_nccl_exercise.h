#pragma once

#include <span>

/// The exercise of lesson 20: the sum of x as a block of several warps makes it.
///
/// Thread t starts from 0 and adds x[t], x[t + threads], x[t + 2 threads], ... Threads 0 to 31 are
/// a warp, 32 to 63 the next: each adds up what its threads have. Then the warps' sums are added to
/// that of the first, in the order of the warps. In float32 that order decides the last bits, and
/// the checker compares all of them.
///
/// @param threads of the block, a multiple of 32, at most 1024
float block_sum(std::span<const float> x, int threads);

/// For you: what the five rounds of a warp make of the 32 numbers of its threads.
float over_warp(std::span<const float> lanes);
