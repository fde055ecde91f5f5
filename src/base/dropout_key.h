#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace nanofsdp {

/// @file
/// @brief Dropout masks from a counter-based generator: no mask is stored, and both twins draw the
/// same bits.
///
/// With a stream of random numbers, an element would depend on everything that was drawn before it.
/// Here it depends on its own place only:
///
///     keep = word(seed, iteration, micro_step, site, global row, element) >= p * 2^32
///
/// So every world size, a recomputed forward pass, the backward pass, Eigen and CUDA all see the
/// same mask, in any order ("Parallel random numbers: as easy as 1, 2, 3", Salmon et al. 2011).
///
/// The word is made in two steps. For each row, the key's five numbers are hashed to 64 bits, each
/// with the finaliser of SplitMix64 (Steele, Lea and Flood 2014). For each element, one half k0 of
/// that row key is XORed in before the finaliser of MurmurHash3 (Appleby 2011), and the other half
/// k1 after it:
///
///     word = mix(element ^ k0) ^ k1
///
/// This has the shape of Even and Mansour's cipher (1997). It takes ten operations on 32-bit
/// integers, which vectorise on any machine, so memory remains the limit. Two rows of one key never
/// have the same row key. The words of one row never repeat, because a row is a permutation of all
/// 32-bit numbers. So the number of dropped elements among n varies less than with coins, by the
/// factor 1 - n / 2^32. Two elements of a row are both kept or both dropped up to 0.05 % more or
/// less often than two coins agree (measured over 2^26 pairs, at each power of two as distance). A
/// second mix would hide that, but takes twice the time. The tests look at rates, and at pairs of
/// neighbours along every coordinate. This generator must not be used for secrets.

/// The name of one dropout call. Equal keys give equal masks.
struct DropoutKey {
  std::uint64_t seed = 0;       ///< the seed of the run
  std::int64_t iteration = 0;   ///< the optimizer step
  std::int64_t micro_step = 0;  ///< number of the micro-batch in the step, over all ranks
  std::int64_t first_row = 0;   ///< number of the caller's row 0 within the whole micro-batch
  int site = 0;                 ///< number of the mask in the pass, in the order of forward
};

/// SplitMix64's step: it adds the golden ratio, and then applies a bijection in which every bit of
/// the input affects every bit of the result.
NANOFSDP_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// MurmurHash3's finaliser: a bijection of 32-bit words in which every bit of the input affects
/// every bit of the result.
NANOFSDP_HOST_DEVICE constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// The hash of the key and of the global row `key.first_row + row`: the caller's rows may be any
/// part of the batch. Callers compute it once for a row, outside the loop over elements.
NANOFSDP_HOST_DEVICE constexpr std::uint64_t row_key(const DropoutKey& key, std::int64_t row) {
  std::uint64_t hash = mix64(key.seed);
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.iteration));
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.micro_step));
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.site));
  return mix64(hash ^ static_cast<std::uint64_t>(key.first_row + row));
}

/// The 32 random bits of one element.
/// @param row_key from the function of that name
NANOFSDP_HOST_DEVICE constexpr std::uint32_t dropout_word(std::uint64_t row_key,
                                                          std::uint32_t element) {
  const auto k0 = static_cast<std::uint32_t>(row_key);
  const auto k1 = static_cast<std::uint32_t>(row_key >> 32);
  return mix32(element ^ k0) ^ k1;
}

/// Whether dropout keeps the element.
/// @param threshold from drop_threshold()
NANOFSDP_HOST_DEVICE constexpr bool keep(std::uint64_t row_key, std::uint32_t element,
                                         std::uint32_t threshold) {
  return dropout_word(row_key, element) >= threshold;
}

/// p in units of 2^-32, rounded to nearest: an element is dropped with probability p to within
/// 2^-32. If p is 0, every element is kept.
/// @throws Error unless 0 <= p < 1, because kept elements are scaled by 1 / (1 - p)
std::uint32_t drop_threshold(double p);

}  // namespace nanofsdp
