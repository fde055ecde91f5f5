#pragma once

#include <iterator>
#include <stdexcept>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_runtime.h"

/// @file
/// @brief The part of CUDA's matrix functions of a warp that nanofsdp uses, on the host: [16, 16]
/// times [16, 16], factors of bfloat16, sums of float32.
///
/// Lane l has row l / 2 of the sums, of which it makes eight columns, and what these need of the
/// factors. A GPU deals them out otherwise; kernels must not ask how. Addresses that are less
/// aligned than a GPU wants are refused, and so are warps of which not all lanes come.

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Side, int m, int n, int k, class T, class Order = void>
struct fragment;

/// A row of A.
template <class Order>
struct fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Order> {
  float row[16];
};
/// Eight columns of B.
template <class Order>
struct fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Order> {
  float columns[16][8];
};
/// Eight sums of a row.
template <>
struct fragment<accumulator, 16, 16, 16, float> {
  static constexpr int num_elements = 8;
  float x[8];
};

template <class Order>
using A = fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Order>;
template <class Order>
using B = fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Order>;
using C = fragment<accumulator, 16, 16, 16, float>;

inline unsigned row() { return emulation::lane() / 2; }
inline unsigned first_column() { return emulation::lane() % 2 * 8; }

template <class Order>
float element(const __nv_bfloat16* matrix, unsigned i, unsigned j, unsigned stride) {
  return __bfloat162float(
      matrix[std::is_same_v<Order, row_major> ? i * stride + j : j * stride + i]);
}

template <class T>
void whole_warp(const T* address, unsigned stride) {
  if (reinterpret_cast<std::uintptr_t>(address) % 32 != 0 || stride * sizeof(T) % 16 != 0) {
    throw std::runtime_error("emulated kernel: a matrix of a warp that is not aligned");
  }
  __syncwarp();
}

template <class Order>
void load_matrix_sync(A<Order>& a, const __nv_bfloat16* from, unsigned stride) {
  whole_warp(from, stride);
  for (unsigned k = 0; k < 16; ++k) a.row[k] = element<Order>(from, row(), k, stride);
}

template <class Order>
void load_matrix_sync(B<Order>& b, const __nv_bfloat16* from, unsigned stride) {
  whole_warp(from, stride);
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned j = 0; j < 8; ++j) {
      b.columns[k][j] = element<Order>(from, k, first_column() + j, stride);
    }
  }
}

inline void load_matrix_sync(C& c, const float* from, unsigned stride, layout_t) {
  whole_warp(from, stride);
  for (unsigned j = 0; j < 8; ++j) c.x[j] = from[row() * stride + first_column() + j];
}

inline void fill_fragment(C& c, float value) {
  for (float& sum : c.x) sum = value;
}

template <class OrderA, class OrderB>
void mma_sync(C& d, const A<OrderA>& a, const B<OrderB>& b, const C& c) {
  for (unsigned j = 0; j < 8; ++j) d.x[j] = c.x[j];
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned j = 0; j < 8; ++j) d.x[j] += a.row[k] * b.columns[k][j];
  }
}

inline void store_matrix_sync(float* to, const C& c, unsigned stride, layout_t) {
  whole_warp(to, stride);
  for (unsigned j = 0; j < 8; ++j) to[row() * stride + first_column() + j] = c.x[j];
}

}  // namespace nvcuda::wmma
