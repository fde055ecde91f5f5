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
/// @brief All that we take from Gloo: connections, and messages between two ranks; with its ways of
/// failing brought to one.

/// The connections of a rank to the others of one group. When they close, what has been sent still
/// arrives: a rank may leave while its peers are reading.
class GlooWire {
 public:
  /// Connects the ranks that meet under `name`, which no other group may have used. All groups of
  /// a process have one IO thread, which binds to the address that leads to rank 0. From then on,
  /// the process ignores SIGPIPE.
  /// @throws CommError setup
  GlooWire(std::shared_ptr<ProcessRun> run, const std::string& name, const Circle& circle);
  ~GlooWire() { end_.set_value(); }

  /// The ranks that it connects. When the group fails, the connections are cut.
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

    /// Blocks until the memory may be used. Once. @throws CommError
    void wait();

   private:
    GlooWire& wire_;
    const Way way_;
    const int peer_;
    const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  void cut() noexcept;
  void wake_often();

  std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;
  std::vector<gloo::transport::UnboundBuffer*> under_way_;  // whose waiters are to be woken
  Peers peers_;                                             // may call cut() from now on
  std::promise<void> end_;
  std::future<void> waking_;  // last
};

}  // namespace nanofsdp::comm
