#include "parity/golden.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/usage_error.h"

namespace nanofsdp::testing {
namespace {

// A copy of the golden files, which the tests damage.
class Golden : public ::testing::Test {
 protected:
  Golden() { std::filesystem::copy(kGolden, folder()); }
  std::filesystem::path folder() const { return directory_.file("golden"); }
  std::string complaint(const std::string& name) const {
    try {
      golden(name, folder());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(Golden, FilesAreAllThereAndSmall) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    bytes += entry.file_size();
    const std::string name = entry.path().filename().string();
    if (name != "manifest.json") {
      EXPECT_EQ(complaint(name), "");
    }
  }
  EXPECT_LT(bytes, 500'000u);
}

TEST_F(Golden, AMissingFileIsNamedWithTheRemedy) {
  std::filesystem::remove(folder() / "init.txt");
  const std::string said = complaint("init.txt");
  EXPECT_NE(said.find("init.txt"), said.npos) << said;
  EXPECT_NE(said.find("git checkout"), said.npos) << said;
  EXPECT_NE(complaint("never.txt").find("never.txt"), std::string::npos);
}

TEST_F(Golden, AChangedByteIsNoticed) {
  std::fstream file(folder() / "rng.txt", std::ios::in | std::ios::out);
  file.seekp(1000).put('z');
  file.close();
  const std::string said = complaint("rng.txt");
  EXPECT_NE(said.find("rng.txt: expected SHA-256"), said.npos) << said;
}

TEST_F(Golden, ABrokenManifestIsNoticed) {
  std::ofstream(folder() / "manifest.json") << "{";
  EXPECT_NE(complaint("rng.txt").find("not JSON"), std::string::npos);
  std::filesystem::remove(folder() / "manifest.json");
  EXPECT_NE(complaint("rng.txt").find("no manifest.json"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::testing
