#pragma once

#include <span>

#include "fsdp/layout.h"

/// The exercise of lesson 16: one rank's part of the gradient norm, squared.
///
/// @param layout of one unit
/// @param rank   the rank that has the shard
/// @param shard  the rank's gradients of the unit, layout.shard_numel() elements. Elements that are
///   padding may hold any value, NaN too; leave them out. layout.piece(i, rank).in_shard is the
///   range of the shard that holds parameter i: a Range has `begin` and `end`. There are
///   layout.parameters().size() parameters
/// @return the sum of the squares of the gradients in the shard, in double
double squares(const nanofsdp::fsdp::Layout& layout, int rank, std::span<const float> shard);
