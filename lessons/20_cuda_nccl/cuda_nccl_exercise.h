#pragma once

#include <span>

/// The exercise of lesson 20: the sum of x as a block of several warps computes it.
///
/// Thread i starts from 0 and adds x[i], x[i + threads], x[i + 2 threads], ... Threads 0 to 31 are
/// the first warp, 32 to 63 the second: each warp adds up the sums of its threads. Then the sums of
/// the other warps are added to the sum of the first, in the order of the warps. In float32 this
/// order decides the last bits, and the checker compares all bits.
///
/// @param threads of the block, a multiple of 32, at most 1024
float block_sum(std::span<const float> x, int threads);

/// Given: the sum of the 32 numbers of a warp's threads, by the five rounds.
float over_warp(std::span<const float> lanes);
