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
/// @brief Ranks that are processes. Those of one machine share memory (sharing.h); the others talk
/// TCP through Gloo. Both give the same bits.
///
/// Gloo brings connections and point-to-point messages; the collectives are our own, the direct
/// ones: every rank sends each peer its chunk at once. Gloo has no reduce-scatter, and the direct
/// form leaves the input intact and fixes the order of the sum.
///
/// With every payload ranks exchange 320 bytes that describe the call and the four before, so that
/// ranks which disagree get an error that shows how they came apart (operation.h).

/// What carries the bytes: shared memory where all ranks of a group have it, else Gloo; or one of
/// the two for all.
enum class Transport { automatic, shared, gloo };

/// How long ranks wait for each other, and how they talk.
struct GlooOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for one message to arrive
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(300);  ///< for ranks to come
  Transport transport = Transport::automatic;  ///< what carries the bytes
};

/// The group of all ranks of the run. Connections take the interface that leads to rank 0 (the
/// loopback one if that is this machine). Blocks until all have come. The context and the store
/// must outlive the communicator and every one split from it. Sets `shared` and `transport` of the
/// context. When a rank is lost, all operations are aborted. A process with connections ignores
/// SIGPIPE from then on.
/// @throws CommError setup; UsageError if the ranks shall share memory, and cannot
std::unique_ptr<Communicator> make_gloo(Context& context, launch::Store& store,
                                        const GlooOptions& options = {});

/// How much of a chunk is received from each peer before it is summed.
constexpr std::int64_t kGlooWindowBytes = 2 << 20;

/// Memory that a group with connections takes in its first reduce_scatter of `chunk_bytes` a rank,
/// from the class `communication`, and keeps: (W - 1) * min(chunk_bytes, 2 MB). Larger chunks later
/// take more.
inline std::int64_t gloo_scratch_bytes(int world_size, std::int64_t chunk_bytes) {
  return (world_size - 1) * std::min(chunk_bytes, kGlooWindowBytes);
}

}  // namespace nanofsdp::comm
