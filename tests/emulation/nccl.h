#pragma once

#include <atomic>
#include <cstddef>

#include "cuda_runtime.h"

/// @file
/// @brief The part of NCCL that nanofsdp uses, on the host. Ranks are threads of this process.
///
/// A call begins when its caller asks for its state for the second time. Then it is put on the
/// stream, where it waits for the other ranks' calls with the same number. An aborted communicator
/// releases its streams, and the other ranks learn of the abort while they wait. Sends and receives
/// are calls of a group: a rank reads another rank's data when both have come, and the sender waits
/// until then. A reduce-scatter adds around a ring, and rounds at each hop.
///
/// The emulation shows whether a caller asks until NCCL is ready, orders its calls, and ends every
/// wait. It cannot show the behaviour of the real NCCL.

enum ncclResult_t {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0, ncclAvg = 4 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }
using ncclComm_t = struct ncclComm*;

extern "C" {
const char* ncclGetErrorString(ncclResult_t);
const char* ncclGetLastError(ncclComm_t);
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int ranks, ncclUniqueId, int rank, ncclConfig_t*);
ncclResult_t ncclCommSplit(ncclComm_t, int color, int key, ncclComm_t*, ncclConfig_t*);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t ncclCommUserRank(ncclComm_t, int*);
ncclResult_t ncclCommCount(ncclComm_t, int*);
ncclResult_t ncclCommFinalize(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t, ncclComm_t,
                           cudaStream_t);
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t,
                               ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t,
                           ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t, int root,
                           ncclComm_t, cudaStream_t);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                      cudaStream_t);
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                      cudaStream_t);
}

namespace emulation {

/// The bytes that ranks have sent with ncclSend since the process began.
extern std::atomic<std::size_t> sent;

/// How often this thread has asked for the state of a call.
extern constinit thread_local int asked;

}  // namespace emulation
