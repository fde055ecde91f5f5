#pragma once

#include "base/traffic.h"

namespace nanofsdp::comm {

/// @file
/// @brief What a communicator has moved (base/traffic.h).

using nanofsdp::Traffic;

}  // namespace nanofsdp::comm
