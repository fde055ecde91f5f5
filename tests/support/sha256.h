#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nanofsdp::testing {

/// @file
/// @brief SHA-256 (FIPS 180-4), so that a test may hold 32 bytes instead of megabytes of weights.

/// Takes bytes piece by piece; hex() ends it.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);

  /// Takes the memory of a span of numbers, which is little-endian on every supported machine.
  template <typename T>
  void update(std::span<const T> values) {
    update(std::as_bytes(values));
  }

  /// Pads the bytes and returns the digest as 64 hexadecimal digits. Call it once.
  std::string hex();

 private:
  void push(std::uint8_t byte);
  void compress();

  // These are the first 32 bits of the fractions of the square roots of the first 8 primes.
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint32_t, 16> block_{};
  std::uint64_t length_ = 0;  // number of bytes so far
};

template <typename T>
std::string sha256(std::span<const T> values) {
  Sha256 hash;
  hash.update(values);
  return hash.hex();
}

}  // namespace nanofsdp::testing
