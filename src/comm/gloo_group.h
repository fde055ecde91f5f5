#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/ledger.h"
#include "comm/gloo.h"
#include "comm/gloo_agreement.h"
#include "comm/gloo_wire.h"
#include "comm/group.h"

namespace gloo {
class Context;
namespace rendezvous {
class Store;
}
namespace transport {
class Device;
}
}  // namespace gloo

namespace nanofsdp::comm {

/// @file
/// @brief Direct collectives over Gloo's messages.

/// What the groups of one process share: one IO thread, one place to meet, one ledger.
struct GlooFabric {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Store> store;
  GlooOptions options;
  Ledger* ledger = nullptr;
};

/// Connects ranks 0 .. size - 1 that meet under `name`, and no other group under it.
/// @throws CommError setup
std::shared_ptr<gloo::Context> connect(const GlooFabric& fabric, const std::string& name, int rank,
                                       int size);

class GlooGroup final : public Group {
 public:
  /// @param size at least 2: Gloo cannot send to oneself
  GlooGroup(std::shared_ptr<const GlooFabric> fabric, std::string name, int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(const Operation& operation, Tensor in, Tensor out) override;
  void reduce_scatter(const Operation& operation, Tensor in, Tensor out) override;
  void broadcast(const Operation& operation, Tensor x) override;
  void barrier(const Operation& operation) override;
  std::shared_ptr<Group> split(const Operation& operation, int color) override;
  void abort(const std::string& reason) noexcept override { wire_.abort(reason); }

 private:
  /// Runs the payload, which must settle the agreement. Errors of the wire leave as CommError.
  void run(const Operation& operation, const std::function<void(Agreement&)>& payload);

  void exchange(Agreement& agreement, const void* in, void* out, std::size_t bytes);
  Peers peers() { return {wire_, rank_, size_}; }

  const std::shared_ptr<const GlooFabric> fabric_;
  const std::string name_;
  const int rank_;
  const int size_;
  GlooWire wire_;
  Buffer scratch_;  // what peers sent for the sum
};

}  // namespace nanofsdp::comm
