#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

/// @file
/// @brief The part of CUDA that nanofsdp's kernels use, on the host: what `#include
/// <cuda_runtime.h>` finds when the `.cu` files are compiled by a C++ compiler, for the tests.
///
/// A kernel runs block after block; the threads of a block are fibers, which take turns at barriers
/// and shuffles. One warp runs as far ahead of the others as barriers let it: the first or the last
/// one, as a coin says for each launch. Another coin says whether copies to shared memory are done
/// at once, or not before the thread waits for them; until then there is NaN. That shows wrong
/// indices, tails, masks and reductions, a barrier that is missing or that only part of a block
/// reaches, a wait that is missing, a shuffle that only part of a warp joins, and with the address
/// sanitizer every access out of bounds.
///
/// Nothing on a stream is done before the host waits for something. What is done then, a coin says:
///
///     late:   what has to be done before the awaited point, and nothing else
///     early:  everything that may be done on the thread's other streams, then the awaited work
///
/// So it shows where one stream should have waited for another and has not, whichever of the two is
/// ahead. With CUDA_LAUNCH_BLOCKING set, the host waits for each piece of work at once.
///
/// The host crashes where it touches memory of the device. Device work crashes where it touches
/// memory that is freed or lies behind an allocation's end. Allocations are aligned to 64 bytes, so
/// the first 63 behind one are seen by the address sanitizer only. Fresh memory is NaN. Ranks that
/// are threads share the memory: while it is open for the device work of one, the host code of
/// another can touch it unnoticed.
///
/// What needs a GPU: races within a warp, bank conflicts and alignment but those of
/// warp_matrix_host.h, and device work that touches the host's memory, which is allowed here
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

/// Those of the running fiber.
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
/// beside what its kernel declares, which are NaN at first.
/// @throws std::runtime_error at a divergent barrier; whatever a thread throws
void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& thread);

/// Until every thread of the block is here.
void block_barrier();

/// The 64 bits that lane `from` of this thread's warp brings, when all of the warp have brought
/// theirs.
std::uint64_t exchange(std::uint64_t mine, unsigned from);

/// A bit for every lane of this thread's warp that brings true, when all of the warp have come.
unsigned ballot(bool mine);

/// What all lanes of this thread's warp have brought, when they have; they may look at it until
/// they part.
void* const* meet(void* mine);
void part();

/// Where shared memory that the launch asked for begins: as on a GPU, a kernel that declares none
/// has it at 1024.
constexpr unsigned kSharedBegin = 1024;
/// @throws std::runtime_error unless the bytes are the block's and aligned
unsigned char* shared(unsigned address, unsigned bytes, unsigned alignment);
/// cp.async, or zeros if there is nothing to copy.
/// @throws std::runtime_error unless both sides are aligned to `bytes`
void copy_later(unsigned to, const void* from, unsigned bytes, bool there);
void wait_for_copies();

/// Number of this thread in its warp.
unsigned lane();

[[noreturn]] void trap();

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

// The runtime. One device.

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
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
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

/// The driver's, which starts nothing; the runtime's function of that name starts the driver.
extern "C" int cuDriverGetVersion(int* version);

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaDriverGetVersion(int* version);
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

/// Work that is not done yet returns false and is asked again. If it throws, whoever waits next is
/// told.
cudaError_t enqueue(cudaStream_t stream, std::function<bool()> work);

/// Moves the clock on that events read. For work that says how long it takes; other work takes
/// none.
void spend(double ms);

/// Whether `memory` is the device's, allocated or not.
bool is_device(const void* memory);

/// While there is one, the memory of the device can be touched.
struct DeviceWork {
  DeviceWork();
  ~DeviceWork();
};

}  // namespace emulation

/// A kernel gets 48 KB of shared memory at launch, and up to 227 if it has been told so before.
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
  if (config->dynamicSmemBytes > limit) return cudaErrorInvalidValue;
  return emulation::enqueue(config->stream, [=, grid = config->gridDim, block = config->blockDim,
                                             shared = config->dynamicSmemBytes] {
    emulation::run(grid, block, shared, [&] { kernel(arguments...); });
    return true;
  });
}
