#pragma once

namespace nanofsdp {

/// @file
/// @brief The width of a vector register of the processor for which this program is compiled.

#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

}  // namespace nanofsdp
