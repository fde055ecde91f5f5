#pragma once

/// @file
/// @brief The version of nanofsdp, in the one place where it is written: CMake reads it here.

/// While it is 0, a new minor version may change what programs call.
#define NANOFSDP_VERSION_MAJOR 0
#define NANOFSDP_VERSION_MINOR 1  ///< counts versions that differ in what programs call
#define NANOFSDP_VERSION_PATCH 0  ///< counts versions that do not
