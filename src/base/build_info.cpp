#include "base/build_info.h"

#include <fmt/format.h>

#include "base/register.h"

namespace nanofsdp {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang";
constexpr int kMajor = __clang_major__, kMinor = __clang_minor__;
#else
constexpr const char* kCompiler = "GCC";
constexpr int kMajor = __GNUC__, kMinor = __GNUC_MINOR__;
#endif

}  // namespace

std::string build_info() {
  return fmt::format("{} {}.{}, {}-bit vectors", kCompiler, kMajor, kMinor, 8 * kRegisterBytes);
}

}  // namespace nanofsdp
