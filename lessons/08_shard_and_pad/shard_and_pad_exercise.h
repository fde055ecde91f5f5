#pragma once

#include "fsdp/layout.h"

/// The exercise of lesson 08: which part of a parameter lies in a shard. It is what Layout::piece
/// returns, but here you get the two ranges.
///
/// Example: C lies at [11, 25) of the row, and rank 1 owns [13, 26). Their common part is
/// [13, 25) of the row, so `in_shard` is [0, 12) and `in_parameter` is [2, 14).
///
/// @param parameter where the parameter lies in the row, [begin, end); may be empty
/// @param shard     what the rank owns of the row, [begin, end); may be empty
/// @return the common part, counted from the start of the shard (`in_shard`) and from the start of
///   the parameter (`in_parameter`). If there is no common part, both are empty: [0, 0)
nanofsdp::fsdp::Piece piece(nanofsdp::fsdp::Range parameter, nanofsdp::fsdp::Range shard);
