#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "comm/communicator.h"
#include "support/device.h"

namespace nanofsdp::testing {

/// @file
/// @brief Numbers that differ from rank to rank, and the results that one process computes from
/// them.

/// The numbers have both signs and are spread over 2^16. So most sums have other bits in another
/// order.
inline float number(int rank, std::int64_t i) {
  std::uint64_t x = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(i * 8 + rank + 1);
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  const float magnitude = static_cast<float>(1 << (x & 15));
  return magnitude * (static_cast<float>((x >> 20) & 0xffffff) * 0x1p-23f - 1.0f);
}

template <class T>
T as(float x) {
  if constexpr (dtype_of<T> == DType::bfloat16) {
    return to_bfloat16(x);
  } else {
    return x;
  }
}

inline float as_float(float x) { return x; }
inline float as_float(bfloat16 x) { return to_float32(x); }

template <class T>
std::vector<T> numbers(int rank, std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values[i] = as<T>(number(rank, i));
  return values;
}

/// The sum over ranks 0, 1, ... as the contract says: in this order, in float32, rounded once to
/// `Out`. It has n elements, from number `begin` on. The ranks send numbers of type T.
template <class T, class Out = T>
std::vector<Out> summed(int world_size, std::int64_t n, comm::ReduceOp op, std::int64_t begin = 0) {
  std::vector<Out> values(static_cast<std::size_t>(n));
  const float scale = op == comm::ReduceOp::sum ? 1.0f : 1.0f / static_cast<float>(world_size);
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = as_float(as<T>(number(0, begin + i)));
    for (int rank = 1; rank < world_size; ++rank) sum += as_float(as<T>(number(rank, begin + i)));
    values[i] = as<Out>(sum * scale);
  }
  return values;
}

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline std::uint32_t bits(bfloat16 x) { return x.bits; }

/// The index of the first element with different bits; -1 if there is none, -2 if the sizes differ.
template <class T>
std::int64_t first_difference(const std::vector<T>& got, const std::vector<T>& want) {
  if (got.size() != want.size()) return -2;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (bits(got[i]) != bits(want[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

template <class T>
Tensor view(std::vector<T>& values) {
  return Tensor(values.data(), {static_cast<std::int64_t>(values.size())}, dtype_of<T>, kDevice);
}

template <class T>
std::vector<T> slice(const std::vector<T>& values, std::int64_t begin, std::int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

}  // namespace nanofsdp::testing
