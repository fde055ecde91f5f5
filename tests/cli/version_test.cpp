#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/build_info.h"
#include "base/version.h"
#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::version_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;

TEST(Version, IsThatOfTheHeader) {
  const TemporaryDirectory directory;
  Process process(directory.file(""), {"--version"});
  EXPECT_EQ(process.wait(10s), 0);
  EXPECT_EQ(process.out(),
            fmt::format("nanofsdp {}.{}.{} ({})\n", NANOFSDP_VERSION_MAJOR, NANOFSDP_VERSION_MINOR,
                        NANOFSDP_VERSION_PATCH, build_info()));
}

}  // namespace
}  // namespace nanofsdp::version_test
