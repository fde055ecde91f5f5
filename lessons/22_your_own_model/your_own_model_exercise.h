#pragma once

#include <cstdint>
#include <span>

/// The exercise of lesson 22: adds an adapter to its matrix, which is then as fast as without one.
///
/// Adds scale * B A to W, so that (W + scale * B A) x = W x + scale * B (A x) for every x.
///
/// @param W  [out, in], row-major: row o is W[o * in], W[o * in + 1], ...; changed in place
/// @param A  [rank, in], row-major; its size divided by `in` is the rank
/// @param B  [out, rank], row-major
/// @param in  columns of W, at least 1
/// @param scale  alpha / rank
void merge(std::span<float> W, std::span<const float> A, std::span<const float> B, std::int64_t in,
           float scale);
