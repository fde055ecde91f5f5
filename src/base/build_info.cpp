#include "base/build_info.h"

#include <fmt/format.h>

#include "base/register.h"

namespace nanofsdp {

std::string build_info() {
#if defined(__clang__)
  const std::string compiler = fmt::format("Clang {}.{}", __clang_major__, __clang_minor__);
#else
  const std::string compiler = fmt::format("GCC {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
  return fmt::format("{}, {}-bit vectors", compiler, 8 * kRegisterBytes);
}

}  // namespace nanofsdp
