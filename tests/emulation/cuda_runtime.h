#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "faults.h"

/// @file
/// @brief The part of CUDA that nanofsdp's kernels use, on the host. `#include <cuda_runtime.h>`
/// finds this file when a C++ compiler compiles the `.cu` files for the tests.
///
/// A kernel runs block after block. The threads of a block are fibers, which take turns at barriers
/// and shuffles. One warp runs ahead of the others as far as barriers allow: the first or the last
/// one, which is random for each launch. It is also random whether copies to shared memory are done
/// at once, or only when the thread waits for them; until then there is NaN. This shows wrong
/// indices, rests, masks and reductions; a barrier that is missing, or that only part of a block
/// reaches; a missing wait; a shuffle that only part of a warp joins; and with the address
/// sanitizer every access out of bounds.
///
/// A stream does no work before the host waits. Then it is random which work is done:
///
///     late:   only the work that must be done before the awaited point
///     early:  all work that may be done on the thread's other streams, then the awaited work
///
/// So it shows if a stream should have waited for another one, whichever of the two is ahead. With
/// CUDA_LAUNCH_BLOCKING set, the host waits for each piece of work at once.
///
/// The host crashes if it touches memory of the device. Device work crashes if it touches memory
/// that is freed or lies behind the end of an allocation. Allocations are aligned to 64 bytes, so
/// only the address sanitizer sees the first 63 bytes behind one. New memory is NaN. Ranks that are
/// threads share the memory: while it is open for the device work of one rank, the host code of
/// another can touch it unnoticed.
///
/// Only a GPU shows these: races within a warp; bank conflicts and alignment, except those of
/// warp_matrix_host.h; and device work that touches the host's memory, which is allowed here
/// because the operators' tests do it.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/// The indices of the running fiber.
extern constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
using std::max;
using std::min;

namespace emulation {

constexpr unsigned kWarp = 32;

/// Runs `thread` for every thread of every block. A block has `shared` bytes of shared memory
/// beside those that its kernel declares; at first they are NaN.
/// @throws std::runtime_error at a divergent barrier, and every error of a thread
void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& thread);

/// Waits until every thread of the block has come.
void block_barrier();

/// Returns the 64 bits of lane `from` of this thread's warp, when all lanes of the warp have come.
std::uint64_t exchange(std::uint64_t mine, unsigned from);

/// Returns one bit for every lane of this thread's warp: its `mine`, when all lanes have come.
unsigned ballot(bool mine);

/// Returns the pointers of all lanes of this thread's warp, when all have come. They may be read
/// until the lanes part.
void* const* meet(void* mine);
void part();

/// The begin of the shared memory that the launch asked for. As on a GPU, it is 1024 if the kernel
/// declares none.
constexpr unsigned kSharedBegin = 1024;
/// The pointer to bytes of the block's shared memory.
/// @throws std::runtime_error unless the bytes are the block's and aligned
unsigned char* shared(unsigned address, unsigned bytes, unsigned alignment);
/// The instruction cp.async; it copies zeros if there is nothing to copy.
/// @throws std::runtime_error unless both sides are aligned to `bytes`
void copy_later(unsigned to, const void* from, unsigned bytes, bool there);
void wait_for_copies();

/// Number of this thread in its warp.
unsigned lane();

[[noreturn]] void trap();

/// The time of the device's clock.
long long nanoseconds();

template <class T>
T shuffle(T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, from);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulation

inline void __syncthreads() { emulation::block_barrier(); }
inline void __syncwarp() { emulation::exchange(0, emulation::lane()); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { emulation::trap(); }

template <class T>
T __shfl_sync(unsigned, T value, unsigned from) {
  return emulation::shuffle(value, from % emulation::kWarp);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return emulation::shuffle(value, emulation::lane() ^ mask);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned delta) {
  const unsigned from = emulation::lane() + delta;
  return emulation::shuffle(value, from < emulation::kWarp ? from : emulation::lane());
}

inline unsigned __ballot_sync(unsigned, int mine) { return emulation::ballot(mine != 0); }
inline int __popc(unsigned bits) { return std::popcount(bits); }

// The functions of the runtime, which has one device.

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum { cudaEventDefault = 0, cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum { cudaSharedmemCarveoutMaxShared = 100 };

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

/// The driver's function, which starts nothing. The runtime's function of a similar name starts the
/// driver.
extern "C" int cuDriverGetVersion(int* version);

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaDriverGetVersion(int* version);
namespace emulation {
inline std::atomic<int> gpus = 1;  ///< how many GPUs the machine has; they are all the host
}
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
struct cudaDeviceProp {
  char name[256];
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);

namespace emulation {

/// Enqueues work. Work that is not done yet returns false, and is called again. If it throws, the
/// next thread that waits is told.
cudaError_t enqueue(cudaStream_t stream, std::function<bool()> work);

/// Moves the clock that events read. Work calls it if it takes time; other work takes none.
void spend(double ms);

/// Waits until the streams of this thread are empty, as cudaFree() does, and those of other threads
/// have done what they can. These may be streams of another GPU, and wait for this one.
/// @throws std::runtime_error after 20 s, because a program would then wait for ever
void drain();

/// Whether the address is one of the device's memory, allocated or not.
bool is_device(const void* memory);

/// memset() for memory of the device or the host.
void set(void* memory, int value, std::size_t bytes);

/// While an object of this class exists, the memory of the device can be touched.
struct DeviceWork {
  DeviceWork();
  ~DeviceWork();
};

}  // namespace emulation

/// A kernel gets 48 KB of shared memory at launch, and up to 227 KB if this was called before.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value);
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute which,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), which, value);
}
namespace emulation {
std::size_t shared_limit(const void* kernel);
}

template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               std::type_identity_t<Parameters>... arguments) {
  const std::size_t limit = emulation::shared_limit(reinterpret_cast<const void*>(kernel));
  if (emulation::fails() || config->dynamicSmemBytes > limit) return cudaErrorInvalidValue;
  return emulation::enqueue(config->stream, [=, grid = config->gridDim, block = config->blockDim,
                                             shared = config->dynamicSmemBytes] {
    emulation::run(grid, block, shared, [&] { kernel(arguments...); });
    return true;
  });
}
