#pragma once

#include <nccl.h>

#include "base/library.h"

namespace nanofsdp::comm {

/// NCCL's functions under their own names. The constructor loads the library.
struct NcclLibrary {
  Library library{NANOFSDP_NCCL, NANOFSDP_NCCL_FOLDER};

  NANOFSDP_FUNCTION(ncclAllGather);
  NANOFSDP_FUNCTION(ncclAllReduce);
  NANOFSDP_FUNCTION(ncclBroadcast);
  NANOFSDP_FUNCTION(ncclRecv);
  NANOFSDP_FUNCTION(ncclReduceScatter);
  NANOFSDP_FUNCTION(ncclSend);

  NANOFSDP_FUNCTION(ncclGroupEnd);
  NANOFSDP_FUNCTION(ncclGroupStart);

  NANOFSDP_FUNCTION(ncclCommAbort);
  NANOFSDP_FUNCTION(ncclCommCount);
  NANOFSDP_FUNCTION(ncclCommDestroy);
  NANOFSDP_FUNCTION(ncclCommFinalize);
  NANOFSDP_FUNCTION(ncclCommGetAsyncError);
  NANOFSDP_FUNCTION(ncclCommInitRankConfig);
  NANOFSDP_FUNCTION(ncclCommSplit);
  NANOFSDP_FUNCTION(ncclCommUserRank);

  NANOFSDP_FUNCTION(ncclGetErrorString);
  NANOFSDP_FUNCTION(ncclGetLastError);
  NANOFSDP_FUNCTION(ncclGetUniqueId);
};

}  // namespace nanofsdp::comm
