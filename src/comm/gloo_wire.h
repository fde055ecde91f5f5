#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/peers.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace nanofsdp::comm {

/// @file
/// @brief All that we take from Gloo: connections, and messages between two ranks; with its ways of
/// failing brought to one.

/// What the groups of one process share: one IO thread, one place to meet.
struct GlooFabric;

/// Binds to the address that leads to rank 0. From then on, this process ignores SIGPIPE.
/// @throws CommError setup
std::shared_ptr<GlooFabric> open_fabric(std::shared_ptr<Run> run);

/// The connections of a rank to the others of one group.
class GlooWire {
 public:
  /// Connects the ranks that meet under `name`, which no other group may have used.
  /// @param rank in the group  @param members their ranks in the run, by which errors name them
  /// @throws CommError setup
  GlooWire(std::shared_ptr<GlooFabric> fabric, const std::string& name, int rank,
           std::vector<int> members);

  /// Closes the connections. What has been sent still arrives: a rank may leave while its peers
  /// are reading.
  ~GlooWire();

  /// Whom it connects. When the group fails, the connections are cut.
  Peers& peers() { return peers_; }

  /// One message on its way. Its memory stays as it is until wait() returns or the wire is aborted.
  /// Messages between two ranks match by slot; those of one slot arrive in order.
  class Message {
   public:
    enum class Way { send, receive };

    /// Posts the message and does not block. Both ends give its exact size, or Gloo ends the
    /// process; and to send to oneself would crash it.
    Message(GlooWire& wire, Way way, int peer, std::uint64_t slot, const void* memory,
            std::size_t bytes);
    ~Message();

    /// Blocks until the memory may be used. Once. @throws WaitError
    void wait();

   private:
    void forget();

    GlooWire& wire_;
    const Way way_;
    const int peer_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  void cut() noexcept;

  const std::shared_ptr<GlooFabric> fabric_;
  std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;
  std::vector<gloo::transport::UnboundBuffer*> under_way_;  // what cut() must wake
  Peers peers_;                                             // last: may call cut() from now on
};

}  // namespace nanofsdp::comm
