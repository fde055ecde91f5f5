#include "base/library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <math.h>

#include "base/check.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace nanofsdp {
namespace {

using testing::expect_error;

/// The file of the C library's mathematics, which this program has loaded already.
std::filesystem::path file() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&::j0), &info);
  return info.dli_fname;
}

struct Mathematics {
  Library library{file().filename(), "/nowhere"};
  NANOFSDP_FUNCTION(j0);  // a Bessel function: the only function without overloads in C++
};

TEST(Library, AFunctionHasItsNameAndItsType) {
  const Mathematics loaded;
  double x = 0.5;
  EXPECT_EQ(loaded.j0(x), ::j0(x));
}

TEST(Library, IsAlsoLookedForInTheFolder) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path copy = directory.file("lib_of_this_test.so");
  std::filesystem::copy(file(), copy);
  EXPECT_NO_THROW(Library(copy.filename(), copy.parent_path()).find("j0"));
}

TEST(Library, OneThatIsMissingIsAskedForByNameAndPlace) {
  expect_error<UsageError>([] { Library("libmissing.so.7", "/nowhere"); },
                           "library libmissing.so.7: expected to find it where the system looks, "
                           "or in /nowhere, got /nowhere/libmissing.so.7: ");
  expect_error<UsageError>([] { Library("libmissing.so.7", "/nowhere"); },
                           "; name its folder in LD_LIBRARY_PATH, or use --device=cpu");
}

TEST(Library, SoIsAFunctionThatItHasNot) {
  const Library mathematics(file().filename(), "/nowhere");
  expect_error<UsageError>([&] { mathematics.find("no_such_function"); },
                           "a version that has no_such_function");
}

}  // namespace
}  // namespace nanofsdp
