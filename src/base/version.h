#pragma once

/// @file
/// @brief The version of nanofsdp, in the one place where it is written: CMake reads it here.

#define NANOFSDP_VERSION_MAJOR 0
#define NANOFSDP_VERSION_MINOR 1
#define NANOFSDP_VERSION_PATCH 0
