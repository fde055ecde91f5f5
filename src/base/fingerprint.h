#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nanofsdp {

/// @file
/// @brief A number that stands for bytes, to compare ranks and files by.

/// Equal for equal bytes, and hardly ever for others (FNV-1a, 64 bits); the same on every machine.
/// Of texts of one length that differ in one byte only, never.
/// @param hash that of the bytes before, to go on from
inline std::uint64_t fingerprint(std::span<const std::byte> bytes,
                                 std::uint64_t hash = 0xcbf29ce484222325) {
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

/// The same for numbers, which differ if one bit of them does: by words, four times as fast.
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
