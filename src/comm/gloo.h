#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/context.h"
#include "comm/communicator.h"
#include "launch/store.h"

namespace nanofsdp::comm {

/// @file
/// @brief Ranks that are processes. Ranks on one machine share memory (sharing.h). Ranks on
/// different machines use Gloo, over TCP. The results have the same bits.
///
/// Gloo connects the processes and carries messages between two of them. The collectives are our
/// own: every rank sends its chunks directly to all other ranks. Gloo has no reduce-scatter. Ours
/// does not change its input, and fixes the order of the sum.
///
/// With every payload, ranks exchange 320 bytes that describe the call and the four calls before
/// it. So if ranks disagree, the error shows where they began to differ (operation.h).

/// The transport of the bytes: shared memory or Gloo. By default it is shared memory if all ranks
/// of a group can use it, and otherwise Gloo.
enum class Transport { automatic, shared, gloo };

/// How long ranks wait for each other, and what carries the bytes.
struct GlooOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< until a message has arrived
  Transport transport = Transport::automatic;                    ///< the transport of the bytes
};

/// Makes the group of all ranks of the run, and blocks until all have come, for Store::patience()
/// at most. Connections use the network interface that leads to rank 0. The context and the store
/// must outlive the communicator, and all communicators that are split from it. It sets `shared`
/// and `transport` of the context. If a rank is lost, all collectives end with an error. A process
/// with connections ignores SIGPIPE from then on.
/// @throws CommError setup; UsageError if ranks were told to share memory and cannot
std::unique_ptr<Communicator> make_gloo(Context& context, launch::Store& store,
                                        const GlooOptions& options = {});

/// How many bytes of a chunk are received from each rank before they are added.
constexpr std::int64_t kGlooWindowBytes = 2 << 20;

/// The memory that a group with connections allocates in a reduce_scatter of `chunk_bytes` a rank,
/// in the class `communication`: (W - 1) * min(chunk_bytes, 2 MB). It keeps this memory. A later
/// reduce_scatter of larger chunks may allocate more.
inline std::int64_t gloo_scratch_bytes(int world_size, std::int64_t chunk_bytes) {
  return (world_size - 1) * std::min(chunk_bytes, kGlooWindowBytes);
}

}  // namespace nanofsdp::comm
