#pragma once

#include <stdexcept>
#include <string>

#include "base/context.h"
#include "base/cuda.h"
#include "launch/launch.h"

namespace nanofsdp::testing {

/// The reason why ranks cannot use a GPU here; empty if they can. A child asks, because CUDA does
/// not survive a fork.
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
