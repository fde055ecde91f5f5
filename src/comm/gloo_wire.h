#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/peers.h"
#include "comm/sharing.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace nanofsdp::comm {

/// @file
/// @brief The parts of Gloo that we use: connections, and messages between two ranks. Every failure
/// of Gloo becomes a CommError.

/// The connections of a rank to the others of one group. When they are closed, bytes that have been
/// sent still arrive. So a rank may leave while its peers are reading.
class GlooWire {
 public:
  /// Connects the ranks that meet under `name`, a name that no other group has used. All groups of
  /// a process have one IO thread, which binds to the address that leads to rank 0. After that, the
  /// process ignores SIGPIPE.
  /// @throws CommError setup
  GlooWire(std::shared_ptr<ProcessState> run, const std::string& name, const GroupSpec& spec);
  ~GlooWire() { end_.set_value(); }

  /// The ranks that it connects. When the group fails, the connections are cut.
  Peers& peers() { return peers_; }

  /// A message between two ranks. Its memory must not change until wait() returns or the wire is
  /// aborted. The sent and the received message match by their tag. Messages of one tag arrive in
  /// order.
  class Message {
   public:
    enum class Way { send, receive };

    /// Posts the message and does not block. Both ends must give its exact size, because otherwise
    /// Gloo ends the process. A rank must not send to itself, because Gloo would crash.
    Message(GlooWire& wire, Way way, int peer, std::uint64_t tag, const void* memory,
            std::size_t bytes);
    ~Message();

    /// Blocks until the memory may be used. Call it once. @throws CommError
    void wait();

   private:
    GlooWire& wire_;
    const Way way_;
    const int peer_;
    const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  void wake_often();

  std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;
  std::vector<gloo::transport::UnboundBuffer*> under_way_;  // messages that are being waited for
  Peers peers_;  // may cut the connections as soon as it exists
  std::promise<void> end_;
  std::future<void> waking_;  // the last member
};

}  // namespace nanofsdp::comm
