#pragma once

/// @file
/// @brief NANOFSDP_HOST_DEVICE marks the functions that kernels call as well as the host.
///
/// nvcc compiles a plain function for the host alone, and so it does the standard library's. So a
/// marked function calls only other marked functions, and built-ins of the compiler.

#if defined(__CUDACC__)
#define NANOFSDP_HOST_DEVICE __host__ __device__
#else
#define NANOFSDP_HOST_DEVICE
#endif
