#pragma once

#include <cstdint>
#include <string>

#include "base/fingerprint.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief Compares the things that must be equal on all ranks before a training: options, a text, a
/// checkpoint.
///
/// If ranks are started one by one, they may differ in a way that no collective shows, for example
/// in the learning rate. So they compare fingerprints once, before the first step.

/// An all_gather for the host. It goes through the memory in which `stream` computes. `all` gets
/// every rank's `mine`, in rank order. Control traffic; blocks the host.
/// @param mine [n], on the host  @param all [W * n], on the host
/// @param unit the purpose, for errors
void gather_on_host(Communicator& world, Stream& stream, Tensor mine, Tensor all,
                    const std::string& unit);

/// Requires that every rank of `world` has the same fingerprint. Collective, control traffic;
/// blocks the host.
/// @param what the thing that must be equal, "options"
/// @param hint what the reader of the error can do
/// @throws CommError mismatch, on every rank: it names `what` and the first rank that differs from
///   rank 0, with both fingerprints
void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint);

}  // namespace nanofsdp::comm
