#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "comm/nccl.h"
#include "launch/party.h"

namespace nanofsdp::testing {

/// @file
/// @brief Ranks that are threads and communicate through the emulated NCCL.

using NcclBody = std::function<void(Context&, launch::Store&, std::unique_ptr<comm::Communicator>)>;

/// The errors that the ranks throw, by rank; empty if none. A rank that throws tells the store, as
/// a launcher does.
inline std::vector<std::string> run_on_nccl(int size, const NcclBody& body,
                                            const comm::NcclOptions& options = {}) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  Party(size).everybody([&](launch::Store& store) {
    try {
      Context context(store.rank(), size, 1, Device::cuda);
      body(context, store, comm::make_nccl(context, store, options));
      store.leave(std::chrono::seconds(10));
    } catch (const std::exception& e) {
      errors[static_cast<std::size_t>(store.rank())] = e.what();
      store.fail(e.what());
    }
  });
  return errors;
}

}  // namespace nanofsdp::testing
