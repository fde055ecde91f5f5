#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace nanofsdp {

/// @file
/// @brief Dropout masks, not stored: a counter-based generator, the same bits on every twin.
///
/// A stream would tie an element's fate to everything drawn before it. Here it is a pure function
///
///     keep = word(seed, iteration, micro_step, site, global row, element) >= p * 2^32
///
/// so every world size, a recomputed forward pass, the backward pass, Eigen and CUDA all see one
/// mask, in any order ("Parallel random numbers: as easy as 1, 2, 3", Salmon et al. 2011).
///
/// Two steps. Once a row, the key's five numbers are hashed to 64 bits, each through the finaliser
/// of SplitMix64 (Steele, Lea and Flood 2014). Once an element, the halves k0, k1 of that row key
/// stand before and behind the finaliser of MurmurHash3 (Appleby 2011):
///
///     word = mix(element ^ k0) ^ k1
///
/// This has the shape of Even and Mansour's cipher (1997): ten operations on 32-bit integers that
/// vectorise on any machine, few enough for memory to remain the limit. Rows of one key never share
/// a row key. Words of one row never repeat: a row is a shuffle of all 32-bit numbers, so the
/// number of n elements that drop varies less than a coin would, by the factor 1 - n / 2^32. Two
/// elements of a row share their fate up to 0.05 % more or less often than two coins (2^26 pairs,
/// each power of two apart); mixing twice would hide that, for twice the time. The tests look at
/// rates, and at pairs of neighbours along every coordinate. Not for secrets.

/// Names one dropout call. Equal keys, equal masks.
struct DropoutKey {
  std::uint64_t seed = 0;       ///< of the run
  std::int64_t iteration = 0;   ///< optimizer step
  std::int64_t micro_step = 0;  ///< counted over all ranks: which micro-batch of the step
  std::int64_t first_row = 0;   ///< global number, within the micro-batch, of the caller's row 0
  int site = 0;                 ///< which mask of the pass, in the order of forward
};

/// SplitMix64's step: the golden ratio added, then a bijection that lets every bit touch every bit.
NANOFSDP_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// MurmurHash3's finaliser: a bijection of 32-bit words, every bit touching every bit.
NANOFSDP_HOST_DEVICE constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// Hash of the key and of global row `key.first_row + row`: the caller's rows may be any part of
/// the batch. To be hoisted out of the loop over elements.
NANOFSDP_HOST_DEVICE constexpr std::uint64_t row_key(const DropoutKey& key, std::int64_t row) {
  std::uint64_t hash = mix64(key.seed);
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.iteration));
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.micro_step));
  hash = mix64(hash ^ static_cast<std::uint64_t>(key.site));
  return mix64(hash ^ static_cast<std::uint64_t>(key.first_row + row));
}

/// The 32 random bits of one element; `row_key` from the function of that name.
NANOFSDP_HOST_DEVICE constexpr std::uint32_t dropout_word(std::uint64_t row_key,
                                                          std::uint32_t element) {
  const auto k0 = static_cast<std::uint32_t>(row_key);
  const auto k1 = static_cast<std::uint32_t>(row_key >> 32);
  return mix32(element ^ k0) ^ k1;
}

/// Whether the element survives; `threshold` from drop_threshold().
NANOFSDP_HOST_DEVICE constexpr bool keep(std::uint64_t row_key, std::uint32_t element,
                                         std::uint32_t threshold) {
  return dropout_word(row_key, element) >= threshold;
}

/// p in units of 2^-32, to the nearest: an element drops with probability p to within 2^-32.
/// 0 keeps everything.
/// @throws Error unless 0 <= p < 1 (survivors are scaled by 1 / (1 - p))
std::uint32_t drop_threshold(double p);

}  // namespace nanofsdp
