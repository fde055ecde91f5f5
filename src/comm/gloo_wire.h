#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/gloo.h"

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

/// A message that did not get through. The connections of its group are closed.
struct WireError {
  CommError::Kind kind;
  std::string what;  ///< follows "rank 0 ..."
};

/// What the groups of one process share: one IO thread, one place to meet.
struct GlooFabric;

/// Binds to the address that leads to rank 0. From then on, this process ignores SIGPIPE.
/// @throws CommError setup
std::shared_ptr<GlooFabric> open_fabric(launch::Store& store, const GlooOptions& options);

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

  /// Cuts the connections and wakes who waits, with WireError aborted. From any thread.
  void abort(const std::string& reason) noexcept;

  /// For a peer that is found to be gone in another way: fails as a message to it would.
  /// @throws WireError
  [[noreturn]] void lose(int peer, const std::string& why) { fail(peer, false, why); }

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

    /// Blocks until the memory may be used. Once. @throws WireError
    void wait();

   private:
    void forget();

    GlooWire& wire_;
    const Way way_;
    const int peer_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  void check_not_aborted() const;
  [[noreturn]] void fail(int peer, bool timed_out, const std::string& gloo_says);

  const std::shared_ptr<GlooFabric> fabric_;
  const std::vector<int> members_;
  std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;
  std::vector<gloo::transport::UnboundBuffer*> under_way_;  // what abort() must wake
  std::string aborted_;                                     // what abort() was told
};

}  // namespace nanofsdp::comm
