#pragma once

#include <cstdint>
#include <span>

/// The exercise of lesson 22: adapters become part of the matrix, which is then as fast as before.
///
/// Adds scale * B A to W, so that (W + scale * B A) x = W x + scale * B (A x) for every x.
///
/// @param W  [out, in], row-major: row o is W[o * in], W[o * in + 1], ...; added to
/// @param A  [rank, in]
/// @param B  [out, rank]
/// @param in  columns of W, at least 1
/// @param scale  alpha / rank
void merge(std::span<float> W, std::span<const float> A, std::span<const float> B, std::int64_t in,
           float scale);
