#pragma once

#include <cstdint>

#include "ops/kernels.cuh"

namespace nanofsdp::ops::cuda::flash {

/// @file
/// @brief Instructions that a whole warp runs together, with one function for each: to load small
/// matrices from shared memory, to multiply them on tensor cores, and to copy to shared memory
/// without waiting. Internal to flash attention.
///
/// PTX defines which lane has which element of a matrix (mma.m16n8k16). A word has 32 bits and
/// holds two neighbours of a row. With g = lane / 4 and t = lane % 4:
///
///     left factor [16, 16]:  word 0 is row g, columns 2t and 2t + 1     word 1 is row g + 8
///                            words 2 and 3 are the same rows, 8 columns on
///     right factor [16, 8]:  word 0 is column g, rows 2t and 2t + 1     word 1 is 8 rows on
///     sums [16, 8]:          0 and 1 are row g, columns 2t and 2t + 1   2 and 3 are row g + 8
///
/// So a lane that rounds its own sums gets its own words of a left factor. A score becomes a weight
/// in the lane that made it.
///
/// Except for a clock in base/device.cu, this is the only file of the project that names
/// instructions of a GPU. The emulation of tests/emulation has the same functions for a C++
/// compiler.

using Shared = unsigned;  ///< an address in shared memory

__device__ inline unsigned lane() { return threadIdx.x % kWarp; }
/// The row and the column of a lane's first element of the sums.
__device__ inline unsigned row_of_sums() { return lane() / 4; }
__device__ inline unsigned column_of_sums() { return lane() % 4 * 2; }

#ifdef __CUDACC__

extern __shared__ __align__(1024) unsigned char shared_memory[];

/// The begin of the shared memory that the launch asks for. It is a multiple of 1024 if the kernel
/// declares no other shared memory.
__device__ inline Shared shared_begin() {
  return static_cast<Shared>(__cvta_generic_to_shared(shared_memory));
}

/// Loads four matrices [8, 8]. Lane l passes the address of row l % 8 of matrix l / 8. Word i is
/// row g, columns 2t and 2t + 1 of matrix i; transposed, it is column g, rows 2t and 2t + 1.
template <bool kTransposed>
__device__ inline void load_matrices(unsigned (&to)[4], Shared row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  }
}

/// sums += a b. The factors are bfloat16.
__device__ inline void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Begins to copy kBytes bytes, or to write zeros if there is nothing to copy. The bytes are there
/// after wait_for_copies().
template <int kBytes>
__device__ inline void copy_later(Shared to, const void* from, bool there) {
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}
/// Waits for this thread's copies. A barrier after it also waits for those of the other threads.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ inline float4 load16(Shared from) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
__device__ inline void store4(Shared to, unsigned x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

/// 2^x, with an error of at most two units in the last place. exp2f would also handle results below
/// 2^-126.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Rounds two numbers to bfloat16 and packs them into a word.
__device__ inline unsigned pack(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

#else
}  // namespace nanofsdp::ops::cuda::flash
#include <warp_matrix_host.h>
namespace nanofsdp::ops::cuda::flash {
#endif

/// The two numbers of a word.
__device__ inline float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ inline float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

/// Turns sums of 16 rows and 2 x 8 columns into a left factor.
__device__ inline void round_to_factor(unsigned (&a)[4], const float (&x)[4], const float (&y)[4]) {
  a[0] = pack(x[0], x[1]);
  a[1] = pack(x[2], x[3]);
  a[2] = pack(y[0], y[1]);
  a[3] = pack(y[2], y[3]);
}

constexpr unsigned kLanesOfRow = 4;  ///< the lanes that share a row of sums, for over_warp()

}  // namespace nanofsdp::ops::cuda::flash
