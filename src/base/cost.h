#pragma once

namespace nanofsdp {

/// @file
/// @brief The cost of a piece of work: counts that follow from shapes alone and are the same on
/// every machine. The speed of a machine turns them into time (plan/machine.h).

/// The bytes that a collective sends over the network. Ranks r, r + stride, r + 2 stride ... take
/// part.
struct Payload {
  double bytes = 0;  ///< bytes that each rank sends, and also receives
  int ranks = 1;     ///< number of ranks in the group; a group of 1 sends nothing
  int stride = 1;    ///< distance between neighbours in the group, in ranks of the run
};

/// The amount of work in one operation. Every operator states it in a function `cost` of its
/// operands, beside its formula.
struct Cost {
  double products = 0;     ///< floating-point operations of matrix products
  double narrowest = 0;    ///< smallest dimension of these matrices; for attention, tokens of a row
  bool bfloat16 = false;   ///< whether the factors are bfloat16, which a GPU multiplies faster
  double attention = 0;    ///< floating-point operations of products inside an attention kernel
  double flops = 0;        ///< all other floating-point operations; a multiply-add counts as two
  double read = 0;         ///< bytes read from memory
  double written = 0;      ///< bytes written to memory
  double overwritten = 0;  ///< written bytes that are not read before: a CPU's cache fetches them
  int launches = 1;        ///< kernels that a GPU launches
  Payload payload{};       ///< bytes that a collective sends
};

}  // namespace nanofsdp
