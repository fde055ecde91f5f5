#pragma once

#include "fsdp/layout.h"

/// The exercise of lesson 08: what Layout::piece returns, from the two ranges.
///
/// @param parameter where a parameter lies in the flat parameter, [begin, end)
/// @param shard     what a rank owns of the flat parameter, [begin, end)
/// @return the part of the parameter that lies in the shard, counted from the start of the shard
///   (`in_shard`) and from the start of the parameter (`in_parameter`); both empty, {0, 0}, if none
nanofsdp::fsdp::Piece piece(nanofsdp::fsdp::Range parameter, nanofsdp::fsdp::Range shard);
