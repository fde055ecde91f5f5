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

/// Returns if every rank of `world` has the same fingerprint. Collective, control traffic; blocks
/// the host.
/// @param what the thing that must be alike, "options"
/// @param hint what the reader of the error can do
/// @throws CommError mismatch, on every rank: names `what` and the first rank that differs from
/// rank 0, with both fingerprints
void require_agreement(Communicator& world, Stream& stream, const std::string& what,
                       std::uint64_t fingerprint, const std::string& hint);

}  // namespace nanofsdp::comm
