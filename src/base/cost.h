#pragma once

#include <cstdint>

namespace nanofsdp {

/// @file
/// @brief The cost of work: counts that follow from shapes alone, the same on every machine. The
/// speed of a machine turns them into time (plan/machine.h).

/// What a collective asks of the network. Ranks r, r + stride, r + 2 stride ... take part.
struct Message {
  double bytes = 0;  ///< that each rank sends, and receives
  int ranks = 1;     ///< of the group; 1: nothing is sent
  int stride = 1;    ///< between neighbours in it, in ranks of the run
};

/// What one piece of work takes. Every operator has a function `cost` of its operands, beside its
/// formula.
struct Cost {
  double products = 0;   ///< floating-point operations of products of matrices
  double narrowest = 0;  ///< the least of these matrices' dimensions; of attention, tokens of a row
  bool bfloat16 = false;   ///< their operands are; a GPU multiplies them faster
  double attention = 0;    ///< floating-point operations of products inside a kernel of attention
  double flops = 0;        ///< all other floating-point operations; a multiply-add counts as two
  double read = 0;         ///< bytes of memory
  double written = 0;      ///< bytes of memory
  double overwritten = 0;  ///< of them, those that it does not read: a CPU's cache fetches them
  int launches = 1;        ///< kernels, on a GPU
  Message message{};       ///< of a collective
};

}  // namespace nanofsdp
