#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nanofsdp {

/// @file
/// @brief A fingerprint is a number that stands for bytes. Ranks and files are compared by it.

/// The fingerprint of some bytes, by FNV-1a with 64 bits: the same on every machine. Equal bytes
/// have equal fingerprints, and other bytes almost always have another one. Two texts of the same
/// length that differ in one byte always have different fingerprints.
/// @param hash the fingerprint of the bytes before these, if there are any
inline std::uint64_t fingerprint(std::span<const std::byte> bytes,
                                 std::uint64_t hash = 0xcbf29ce484222325) {
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

/// The fingerprint of numbers, which differs if one bit of one number differs. It hashes whole
/// words, and is four times as fast as the fingerprint of their bytes.
inline std::uint64_t fingerprint(std::span<const float> values,
                                 std::uint64_t hash = 0xcbf29ce484222325) {
  for (const float x : values) hash = (hash ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3;
  return hash;
}

/// The fingerprint of a text's bytes.
inline std::uint64_t fingerprint(std::string_view text) {
  return fingerprint(std::as_bytes(std::span(text)));
}

}  // namespace nanofsdp
