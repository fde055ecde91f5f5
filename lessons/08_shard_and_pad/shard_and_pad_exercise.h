#pragma once

#include <cstdint>

#include "fsdp/layout.h"

/// The exercise of lesson 08, in two functions. First: which part of a parameter lies in a shard.
/// It is what Layout::piece returns, but here you get the two ranges.
///
/// Example: C lies at [11, 25) of the row, and rank 1 owns [13, 26). Their common part is
/// [13, 25) of the row, so `in_shard` is [0, 12) and `in_parameter` is [2, 14).
///
/// @param parameter where the parameter lies in the row, [begin, end); may be empty
/// @param shard     what the rank owns of the row, [begin, end); may be empty
/// @return the common part, counted from the start of the shard (`in_shard`) and from the start of
///   the parameter (`in_parameter`). If there is no common part, both are empty: [0, 0)
nanofsdp::fsdp::Piece piece(nanofsdp::fsdp::Range parameter, nanofsdp::fsdp::Range shard);

/// Second: the number of ranks changes while a row of n elements is sharded. Each rank keeps its
/// number, and its old shard stays in its memory. How many elements of its new shard must other
/// ranks send to it? Padding is not sent.
///
/// Example: 25 elements. Of 2 ranks, rank 1 had the elements 13 to 24. Of 3 ranks, it has 9 to 17,
/// so other ranks send it 4 elements, 9 to 12.
///
/// @param n     elements of the row without padding, at least 0
/// @param old_W ranks before, at least 1
/// @param W     ranks now, at least 1
/// @param rank  in [0, W); it is new if it is not below old_W
std::int64_t to_fetch(std::int64_t n, std::int64_t old_W, std::int64_t W, std::int64_t rank);
