#pragma once

#include <stdexcept>
#include <string>

#include "base/context.h"
#include "base/cuda.h"
#include "launch/launch.h"

namespace nanofsdp::testing {

/// What keeps ranks off a GPU here; empty if nothing does. CUDA does not survive a fork, so a child
/// asks.
inline std::string why_no_gpu() {
  if (!kCuda) return "this build has no CUDA";
  return launch::run_processes(1,
                               [](launch::Store&) {
                                 const std::string problem = why_not(Device::cuda);
                                 if (!problem.empty()) throw std::runtime_error(problem);
                                 const Context context(0, 1, 1, Device::cuda);
                               })
      .message;
}

}  // namespace nanofsdp::testing
