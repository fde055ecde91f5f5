#pragma once

#include <cstdint>
#include <string>

#include "base/fingerprint.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief What every rank must have alike before it can train: options, a text, a checkpoint.
///
/// Ranks that were started apart may differ in what no collective shows: the same shapes, another
/// learning rate. They compare fingerprints once, before the first step.

/// The hosts' own all_gather, by way of the memory in which `stream` computes: all = every rank's
/// `mine`, in rank order. Control traffic; blocks the host.
/// @param mine [n], on the host  @param all [W * n], on the host
/// @param unit what for
void gather_on_host(Communicator& world, Stream& stream, Tensor mine, Tensor all,
                    const std::string& unit);

/// Returns if every rank of `world` has the same fingerprint. Collective, control traffic; blocks
/// the host.
/// @param what the thing that must be alike, "options"
/// @param hint what the reader of the error can do
/// @throws CommError mismatch, on every rank: names `what` and the first rank that differs from
/// rank 0, with both fingerprints
void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint);

}  // namespace nanofsdp::comm
