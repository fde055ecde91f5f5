#include "base/build_info.h"

#include <fmt/format.h>

namespace nanofsdp {
namespace {

#if defined(__AVX512F__)
constexpr const char* kSimd = "AVX-512";
#elif defined(__AVX2__)
constexpr const char* kSimd = "AVX2";
#elif defined(__SSE4_2__)
constexpr const char* kSimd = "SSE 4.2";
#elif defined(__ARM_NEON)
constexpr const char* kSimd = "NEON";
#else
constexpr const char* kSimd = "no wide vectors";
#endif

#if defined(__clang__)
constexpr const char* kCompiler = "Clang";
constexpr int kMajor = __clang_major__, kMinor = __clang_minor__;
#else
constexpr const char* kCompiler = "GCC";
constexpr int kMajor = __GNUC__, kMinor = __GNUC_MINOR__;
#endif

}  // namespace

std::string build_info() { return fmt::format("{} {}.{}, {}", kCompiler, kMajor, kMinor, kSimd); }

}  // namespace nanofsdp
