#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace nanofsdp::comm {

/// @file
/// @brief Messages between two ranks, with Gloo's ways of failing brought to one.

/// A message that did not get through; the connections of its group are closed.
struct WireError {
  CommError::Kind kind;
  std::string what;  ///< follows "rank 0 ..."
};

/// The connections of one group, one to each peer.
class GlooWire {
 public:
  /// @param timeout for each wait; Gloo takes 0 and very large values for "at once": they are not
  ///     passed on
  GlooWire(std::shared_ptr<gloo::Context> context, std::chrono::milliseconds timeout);
  ~GlooWire();

  /// Closes all connections and wakes who waits, with WireError aborted. From any thread.
  void abort(const std::string& reason) noexcept;

  /// What abort() was told; empty before.
  std::string aborted() const;

  /// One message on its way. Its memory stays as it is until wait() returns. Messages between two
  /// ranks match by slot; those of one slot arrive in order. Never to oneself: Gloo crashes.
  class Message {
   public:
    enum class Way { send, receive };

    /// Posts the message and does not block. The receiver must expect its exact size.
    Message(GlooWire& wire, Way way, int peer, std::uint64_t slot, const void* memory,
            std::size_t bytes);
    ~Message();
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    /// Blocks until the memory may be used. Once. @throws WireError
    void wait();

   private:
    GlooWire& wire_;
    const Way way_;
    const int peer_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  [[noreturn]] void fail(int peer, bool timed_out, const std::string& gloo_says);

  const std::shared_ptr<gloo::Context> context_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::vector<gloo::transport::UnboundBuffer*> under_way_;  // what abort() must wake
  std::string aborted_;
};

}  // namespace nanofsdp::comm
