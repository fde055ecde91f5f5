#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "ops/matmul_oracle.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

// Tests which of cuBLAS's kernels multiply. The emulated library has three kernels for each
// product. They sum in different orders, and one takes half of the time of the others.

namespace nanofsdp::ops::products_test {
namespace {

using namespace matmul_oracle;
using testing::stream_of;

struct Results {
  testing::Values<float> y, dx, dweight;
  bool operator==(const Results&) const = default;
};

/// Multiplies in both directions after the file has been named, and twice on one stream, which must
/// change nothing.
Results multiplied(const Sizes& s, const std::string& file) {
  const auto stream = stream_of();
  if (!file.empty()) take_fastest_products(*stream, file);
  Results results;
  for (int i = 0; i < 2; ++i) {
    Operands o(s);
    const Operands before(s);
    matmul(*stream, o.forward());
    matmul(*stream, o.backward());
    EXPECT_LE(testing::relative_l2(o.y.values,
                                   forward(s, o.x.doubles(), o.weight.doubles(), o.bias.doubles())),
              1e-5);
    const Gradients g = backward(s, o.dy.doubles(), o.x.doubles(), o.weight.doubles(),
                                 before.dweight.doubles(), before.dbias.doubles());
    EXPECT_LE(testing::relative_l2(o.dx.values, g.dx), 1e-5);
    EXPECT_LE(testing::relative_l2(o.dweight.values, g.dweight), 1e-5);
    const Results now{o.y.values, o.dx.values, o.dweight.values};
    if (i == 0) results = now;
    EXPECT_EQ(now, results);
  }
  return results;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

constexpr Sizes kSizes[] = {{40, 33, 29}, {17, 64, 50}, {5, 1000, 6}};

TEST(EmulatedProducts, AreTimedOnceAndTheFileNamesTheFastest) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("products");
  for (const Sizes& s : kSizes) multiplied(s, path);
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 3 * std::size(kSizes));
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    const auto& [N, K, M] = kSizes[i];
    const std::int64_t sides[][2] = {{N, M}, {N, K}, {M, K}};  // shapes of y, dx and dweight
    for (std::size_t j = 0; j < 3; ++j) {
      const auto [rows, cols] = sides[j];
      const std::string& line = lines[3 * i + j];
      EXPECT_NE(line.find("emulated GPU, cuBLASLt 130000, matmul A"), std::string::npos) << line;
      EXPECT_NE(line.find("[" + std::to_string(rows) + ", " + std::to_string(cols) + "]"),
                std::string::npos);
      EXPECT_EQ(line.substr(line.rfind(": ")), ": " + std::to_string((rows + cols) % 3)) << line;
    }
  }
}

TEST(EmulatedProducts, HaveTheBitsOfTheFileWhoeverWroteIt) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("products");
  const Sizes s{5, 1000, 6};
  const Results first = multiplied(s, path), plain = multiplied(s, "");
  EXPECT_EQ(multiplied(s, path), first);
  EXPECT_NE(first, plain) << "another kernel";
  EXPECT_EQ(multiplied(s, ""), plain);
  std::ofstream others(directory.file("others"));
  for (const std::string& line : lines_of(path))
    others << line.substr(0, line.rfind(": ")) << ": 0\n";
  others.close();
  EXPECT_EQ(multiplied(s, directory.file("others")), plain);
  EXPECT_EQ(lines_of(path).size(), 3u) << "nothing is timed twice";
}

TEST(EmulatedProducts, AreTheSameOnRanksThatShareTheFile) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("products");
  const Sizes s{5, 1000, 6};
  std::vector<Results> of_rank(3);
  std::vector<std::thread> ranks;
  for (Results& mine : of_rank) ranks.emplace_back([&] { mine = multiplied(s, path); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(of_rank[1], of_rank[0]);
  EXPECT_EQ(of_rank[2], of_rank[0]);
  EXPECT_GE(lines_of(path).size(), 3u);
  EXPECT_LE(lines_of(path).size(), 9u) << "a rank times a product at most once";
}

TEST(EmulatedProducts, TheFirstWholeLineOfAProductHolds) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("products"), many = directory.file("many");
  const Sizes s{5, 1000, 6};
  const Results fastest = multiplied(s, path), plain = multiplied(s, "");
  std::string zeros;
  for (const std::string& line : lines_of(path))
    zeros += line.substr(0, line.rfind(": ")) + ": 0\n";
  std::ofstream(many) << zeros << testing::read_file(path);
  EXPECT_EQ(multiplied(s, many), plain);
  std::ofstream(many) << testing::read_file(path) << zeros;
  EXPECT_EQ(multiplied(s, many), fastest);
}

TEST(EmulatedProducts, AFileThatCannotBeIsNamed) {
  const Sizes s{5, 10, 6};
  const testing::TemporaryDirectory directory;
  const auto expect_refused = [&](const std::string& path, const char* words) {
    const auto stream = stream_of();
    take_fastest_products(*stream, path);
    Operands o(s);
    testing::expect_error<Error>([&] { matmul(*stream, o.forward()); }, words);
  };
  expect_refused(directory.file("nowhere/products"), "expected a file that can be written");
  const std::string path = directory.file("products");
  multiplied(s, path);
  std::string text = testing::read_file(path);
  std::ofstream(path) << text.replace(text.find(": "), 3, ": 9");
  expect_refused(path, "expected a number below 3, got 9");
}

}  // namespace
}  // namespace nanofsdp::ops::products_test
