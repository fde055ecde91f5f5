#pragma once

/// @file
/// @brief The version of nanofsdp. CMake reads it from this file, the only one that states it.

/// While this number is 0, a new minor version may change the functions that programs call.
#define NANOFSDP_VERSION_MAJOR 0
#define NANOFSDP_VERSION_MINOR 1  ///< grows when the functions that programs call change
#define NANOFSDP_VERSION_PATCH 0  ///< grows when they do not change
