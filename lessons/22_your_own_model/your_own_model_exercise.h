#pragma once

#include <cstdint>
#include <span>

/// The exercise of lesson 22: adds an adapter to its matrix, which is then as fast as without one.
///
/// Adds scale * lora_B lora_A to the base, so that the new base times x is
/// base x + scale * lora_B (lora_A x) for every x.
///
/// @param base   [out, in], row-major: row o is base[o * in], base[o * in + 1], ...; changed in
///   place
/// @param lora_A [width, in], row-major; its size divided by `in` is the width of the adapter
/// @param lora_B [out, width], row-major
/// @param in     columns of the base, at least 1
/// @param scale  alpha / width
void merge(std::span<float> base, std::span<const float> lora_A, std::span<const float> lora_B,
           std::int64_t in, float scale);
