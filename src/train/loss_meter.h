#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "comm/mesh.h"

namespace nanofsdp::train {

/// @file
/// @brief Sums of losses. A rank adds its losses on the device; a caller asks for the sums over all
/// ranks.
class LossMeter {
 public:
  /// @param count number of sums that are kept side by side
  LossMeter(Context& context, comm::Mesh& mesh, int count);

  void clear();

  /// The sum to which this rank adds its losses: [1], float64.
  Tensor sum(int i) const { return local().slice(i, 1); }

  /// The sums over all ranks, added in rank order. Collective (control traffic); blocks the host.
  std::vector<double> over_ranks();

 private:
  Tensor local() const;

  Context& context_;
  comm::Mesh& mesh_;
  int count_;
  Buffer memory_;  // float64 [W, count]; this rank adds to its own row
};

}  // namespace nanofsdp::train
