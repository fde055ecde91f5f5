#include <gtest/gtest.h>

#include <map>
#include <set>

#include "house/source_tree.h"

// Tests the arrows of the house. A room includes only itself and the rooms below it, the build
// links the same arrows, and each foreign library is used in one place only.

namespace house {
namespace {

using Names = std::set<std::string>;

const std::map<std::string, Names> kArrows{
    {"base", {}},
    {"launch", {"base"}},
    {"comm", {"launch", "base"}},
    {"ops", {"base"}},
    {"nn", {"ops", "base"}},
    {"gpt", {"nn", "ops", "base"}},
    {"fsdp", {"nn", "comm", "ops", "base"}},
    {"data", {"base"}},
    {"store", {"fsdp", "comm", "nn", "base"}},
    {"plan", {"fsdp", "gpt", "comm", "nn", "base"}},
    {"train", {"store", "data", "fsdp", "gpt", "comm", "nn", "base"}},
    {"bench",
     {"train", "plan", "store", "data", "fsdp", "gpt", "comm", "launch", "nn", "ops", "base"}},
    {"cli",
     {"bench", "train", "plan", "store", "data", "fsdp", "gpt", "comm", "launch", "nn", "ops",
      "base"}},
};

/// Sharding may use only those operators that work on flat memory.
const Names kOpsForFsdp{"ops/copy_chunks.h", "ops/adamw.h", "ops/norm.h", "ops/elementwise.h"};

const std::vector<std::string> kSources{".h", ".cpp", ".cu", ".cuh"};

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

bool may_include(const std::string& room, const std::string& header) {
  const std::string other = first_part(header);
  if (room == "fsdp" && other == "ops") return kOpsForFsdp.contains(header);
  return other == room || kArrows.at(room).contains(other);
}

TEST(IncludeDirection, FollowsTheArrows) {
  for (const auto& [room, below] : kArrows) {
    for (const auto& file : files("src/" + room, kSources)) {
      for (const std::string& header : includes(file)) {
        if (kArrows.contains(first_part(header))) {
          EXPECT_TRUE(may_include(room, header)) << file << " includes " << header;
        }
      }
    }
  }
}

TEST(IncludeDirection, EveryRoomIsOnTheMap) {
  for (const auto& file : files("src", kSources)) {
    const std::string room = first_part(file.lexically_relative("src").string());
    EXPECT_TRUE(kArrows.contains(room) || room == "main.cpp" || room == "nanofsdp.h") << file;
  }
}

TEST(IncludeDirection, EveryRoomBeginsAtOneHeader) {
  for (const auto& [room, below] : kArrows) {
    int begins = 0;
    for (const auto& file : files("src/" + room, {".h"})) {
      const std::string text = read(file);
      if (text.find("@brief The room `" + room + "`") == text.npos) continue;
      ++begins;
      EXPECT_NE(text.find("Comes in:"), text.npos) << file;
      EXPECT_NE(text.find("Goes out:"), text.npos) << file;
    }
    EXPECT_EQ(begins, 1) << room;
  }
}

TEST(IncludeDirection, TheBuildLinksTheSameArrows) {
  const std::string cmake = read("CMakeLists.txt");
  const std::regex call(R"(\n *nanofsdp_room\((\w+)\s+LINK\s+([^)]*)\))");
  const std::regex library(R"(nanofsdp_(\w+))");
  std::map<std::string, Names> linked;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), call), end; it != end; ++it) {
    const std::string links = (*it)[2];
    Names& names = linked[(*it)[1]];
    for (std::sregex_iterator link(links.begin(), links.end(), library); link != end; ++link) {
      names.insert((*link)[1]);
    }
  }
  EXPECT_EQ(linked, kArrows);
}

/// The files of src/ that include a file whose name begins with `prefix`.
Names includers(const std::string& prefix) {
  Names found;
  for (const auto& file : files("src", kSources)) {
    for (const std::string& header : includes(file)) {
      if (header.starts_with(prefix)) found.insert(file.string());
    }
  }
  return found;
}

void expect_only(const std::string& prefix, const std::string& allowed) {
  for (const std::string& file : includers(prefix)) {
    EXPECT_TRUE(std::regex_match(file, std::regex(allowed))) << file << " includes " << prefix;
  }
}

TEST(IncludeDirection, ForeignLibrariesStandBehindOneDoor) {
  expect_only("nccl.h", R"(src/comm/nccl\w*\.\w+)");
  expect_only("gloo/", R"(src/comm/gloo\w*\.\w+)");
  // The sum over ranks that share a GPU is a kernel too.
  expect_only("cuda", R"(src/ops/\w+\.cuh?|src/base/device\.\w+|src/comm/nccl\w*\.\w+)");
  expect_only("base/device.cuh",
              R"(src/ops/\w+\.cuh?|src/base/device\.cu|src/comm/(nccl\w*\.\w+|sum\.cu))");
  expect_only("cublas", R"(src/ops/gemm\.cuh?)");
  expect_only("nlohmann/", R"(src/base/json\.h)");
  expect_only("CLI/", R"(src/cli/\w+\.cpp|src/main\.cpp)");
}

// fmt checks format strings while it is compiled, which nvcc cannot compile.
TEST(IncludeDirection, NoKernelIncludesFmt) { expect_only("fmt/", R"(.*\.(h|cpp))"); }

TEST(IncludeDirection, NoPublicHeaderShowsEigen) {
  expect_only("Eigen/", R"(src/ops/\w+\.cpp)");
  expect_only("unsupported/Eigen", R"(src/ops/\w+\.cpp)");
}

}  // namespace
}  // namespace house
