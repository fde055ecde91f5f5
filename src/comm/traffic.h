#pragma once

#include "base/traffic.h"

namespace nanofsdp::comm {

/// @file
/// @brief The traffic of a communicator (base/traffic.h).

using nanofsdp::Traffic;

}  // namespace nanofsdp::comm
