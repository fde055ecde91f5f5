#pragma once

namespace nanofsdp {

/// @file
/// @brief How wide a vector register of the processor is that this is compiled for.

#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

}  // namespace nanofsdp
