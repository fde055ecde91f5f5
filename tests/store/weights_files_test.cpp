#include "store/weights_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Tests directories of weights from other programs: tensors in boxes of any form, and all kinds of
// damage.

namespace nanofsdp::store {
namespace {

using Dims = std::vector<std::int64_t>;
using Values = std::vector<float>;

struct Part {
  std::string name;
  Dims shape;
  Values values;
  Dims offsets{};
};

class WeightsFilesTest : public ::testing::Test {
 protected:
  // Writes a file that has parts of tensors, or whole tensors if `sharding` is empty.
  void write(const std::string& file, const std::vector<Part>& parts, Metadata metadata = {},
             const std::string& sharding = "as the parts say") {
    std::vector<TensorInfo> tensors;
    auto info = nlohmann::json::object();
    for (const Part& part : parts) {
      tensors.push_back({part.name, part.shape});
      info[part.name][kSavedOffsets] = part.offsets;
    }
    if (!sharding.empty()) {
      metadata[kShardingInfo] = sharding.starts_with("as ") ? info.dump() : sharding;
    }
    SafetensorsWriter writer(directory_.file(file), tensors, metadata);
    for (const Part& part : parts) writer.append(part.values);
    writer.finish();
  }
  Values read(const TensorInfo& tensor) { return WeightsFiles(directory_.file("")).read(tensor); }
  std::string complaint(const TensorInfo& tensor = {"w", {2}}) {
    return testing::usage_error([&] { read(tensor); });
  }

  testing::TemporaryDirectory directory_;
};

// Only files of ranks say how many there are. In any other, "shards" is a word of the program's.
TEST_F(WeightsFilesTest, KeepWhateverElseAProgramWants) {
  write("model.safetensors", {{"w", {2}, {1, 2}, {}}}, {{"shards", "7"}}, /*sharding=*/"");
  EXPECT_EQ(read({"w", {2}}), Values({1, 2}));
  EXPECT_EQ(WeightsFiles(directory_.file("")).metadata().at("shards"), "7");
}

TEST_F(WeightsFilesTest, BoxesOfAnyFormBecomeOneTensor) {
  // The tensor [2, 3, 2] of 0 ... 11 lies in four boxes: its first column, the rest of row 0, and
  // the rest of row 1 in two parts.
  write("a.safetensors", {{"w", {2, 1, 2}, {0, 1, 6, 7}, {0, 0, 0}}, {"one", {}, {5}, {}}});
  write("b.safetensors", {{"w", {1, 2, 2}, {2, 3, 4, 5}, {0, 1, 0}}});
  write("c.safetensors", {{"w", {1, 2, 1}, {9, 11}, {1, 1, 1}}, {"v", {1}, {4}, {1}}});
  write("d.safetensors", {{"w", {1, 2, 1}, {8, 10}, {1, 1, 0}}, {"v", {1}, {3}, {0}}});
  Values all(12);
  std::iota(all.begin(), all.end(), 0.f);
  EXPECT_EQ(read({"w", {2, 3, 2}}), all);
  EXPECT_EQ(read({"v", {2}}), Values({3, 4}));
  EXPECT_EQ(read({"one", {}}), Values({5}));
}

// A run of many ranks leaves more files than a process may have open.
TEST_F(WeightsFilesTest, ManyFilesAreReadWithFewDescriptors) {
  constexpr std::int64_t kFiles = 100;
  for (std::int64_t i = 0; i < kFiles; ++i) {
    write(std::to_string(i) + ".safetensors", {{"w", {1}, {static_cast<float>(i)}, {i}}});
  }
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 50, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  Values all(kFiles), got;
  std::iota(all.begin(), all.end(), 0.f);
  EXPECT_EQ(testing::usage_error([&] { got = read({"w", {kFiles}}); }), "no error");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(got, all);
}

// PyTorch saves a rank without rows in this way: an empty box behind the last row.
TEST_F(WeightsFilesTest, EmptyBoxesAreNoElements) {
  write("a.safetensors", {{"w", {2, 2}, {1, 2, 3, 4}, {0, 0}}});
  write("b.safetensors", {{"w", {0, 2}, {}, {2, 0}}});
  EXPECT_EQ(read({"w", {2, 2}}), Values({1, 2, 3, 4}));
}

TEST_F(WeightsFilesTest, SeveralFilesOfWholeTensorsAreHuggingFaces) {
  write("model-00001-of-00002.safetensors", {{"w", {2}, {1, 2}}}, {{"format", "pt"}}, "");
  write("model-00002-of-00002.safetensors", {{"v", {1, 2}, {3, 4}}}, {}, "");
  directory_.write("model.safetensors.index.json",
                   R"({"weight_map": {"w": "model-00001-of-00002.safetensors",
                                      "v": "model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(read({"w", {2}}), Values({1, 2}));
  EXPECT_EQ(read({"v", {1, 2}}), Values({3, 4}));
}

// If there is an index, it says which files belong together. If not, the numbers in their names do.
TEST_F(WeightsFilesTest, AMissingFileIsNoticedAndAStrangeOneIsNot) {
  write("model-00001-of-00002.safetensors", {{"w", {2}, {1, 2}}}, {}, "");
  write("optimizer.safetensors", {{"w", {3}, {7, 8, 9}}}, {}, "");
  EXPECT_TRUE(testing::one_line_with(complaint(), {"2 files of one model", "got 1"}));
  directory_.write("model.safetensors.index.json",
                   R"({"weight_map": {"w": "model-00001-of-00002.safetensors",
                                      "v": "model-00002-of-00002.safetensors"}})");
  EXPECT_TRUE(testing::one_line_with(complaint(), {"model-00002-of-00002", "no such file"}));
  write("model-00002-of-00002.safetensors", {{"v", {1}, {3}}}, {}, "");
  EXPECT_EQ(read({"w", {2}}), Values({1, 2}));
  std::filesystem::remove(directory_.file("model.safetensors.index.json"));
  EXPECT_EQ(read({"v", {1}}), Values({3}));
}

TEST_F(WeightsFilesTest, AnIndexNamesFiles) {
  write("a.safetensors", {{"w", {2}, {1, 2}}}, {}, "");
  for (const char* map : {"{}", "[]", "7", "{\"w\": 7}"}) {
    directory_.write("model.safetensors.index.json", std::string("{\"weight_map\": ") + map + "}");
    EXPECT_TRUE(testing::one_line_with(complaint(), {"model.safetensors.index.json"}))
        << map << complaint();
  }
}

TEST_F(WeightsFilesTest, OneFileOutdoesMany) {
  write("shard-00001-model-00001-of-00001.safetensors", {{"w", {2}, {1, 2}, {0}}});
  write("model.safetensors", {{"w", {2}, {3, 4}}}, {}, "");
  EXPECT_EQ(read({"w", {2}}), Values({3, 4}));
  directory_.write("model.safetensors.index.json",
                   R"({"weight_map": {"w": "shard-00001-model-00001-of-00001.safetensors"}})");
  EXPECT_EQ(read({"w", {2}}), Values({3, 4}));
  EXPECT_EQ(WeightsFiles(directory_.file("")).path(), directory_.file("model.safetensors"));
}

TEST_F(WeightsFilesTest, WithoutAnyFileTheUsualOneIsMissed) {
  EXPECT_TRUE(testing::one_line_with(complaint(), {"model.safetensors", "no such file"}));
}

TEST_F(WeightsFilesTest, EveryElementMustBeThereOnce) {
  write("a.safetensors", {{"w", {2, 3}, Values(6), {0, 0}}});
  write("c.safetensors", {{"w", {1, 3}, Values(3), {3, 0}}});
  EXPECT_TRUE(testing::one_line_with(
      complaint(), {"weights '", "all 12 elements of 'w', got 9", "is a file missing?"}));
  write("b.safetensors", {{"w", {2, 2}, Values(4), {1, 1}}});
  EXPECT_TRUE(testing::one_line_with(
      complaint(), {"every element of 'w' once, got some of them twice", "other weights?"}));
}

TEST_F(WeightsFilesTest, FilesThatBelongTogetherAreCounted) {
  write("a.safetensors", {{"w", {1}, {1}, {0}}}, {{kShards, "3"}});
  write("b.safetensors", {{"w", {1}, {2}, {1}}}, {{kShards, "3"}});
  EXPECT_TRUE(testing::one_line_with(complaint(), {"3 files of one model, got 2"}));
}

TEST_F(WeightsFilesTest, ANumberThatIsTooLongCountsNoFiles) {
  write("model-00001-of-99999999999999999999.safetensors", {{"w", {1}, {1}}}, {}, "");
  EXPECT_EQ(read({"w", {1}}), Values({1}));
}

TEST_F(WeightsFilesTest, AnotherShapeOrNameIsTold) {
  write("a.safetensors", {{"w", {1, 2}, {1, 2}, {0, 0}}});
  write("b.safetensors", {{"w", {1, 2}, {3, 4}, {1, 0}}});
  EXPECT_TRUE(testing::one_line_with(complaint({"w", {3, 2}}), {"'w' of shape [3, 2]", "[2, 2]"}));
  EXPECT_TRUE(testing::one_line_with(complaint({"v", {3, 2}}), {"a tensor 'v'", "none"}));
}

// The metadata leave out a tensor, or say something that cannot be right. The error names the file.
TEST_F(WeightsFilesTest, OffsetsThatMakeNoSenseAreRefused) {
  write("a.safetensors", {{"w", {2}, {1, 2}, {0}}});
  for (const char* sharding :
       {"{", "[]", "{}", R"({"w": {}})", R"({"w": {"saved_offsets": 2}})",
        R"({"w": {"saved_offsets": ["x"]}})", R"({"w": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [2, 0]}})", R"({"w": {"saved_offsets": [-1]}})",
        R"({"w": {"saved_offsets": [9223372036854775807]}})"}) {
    write("b.safetensors", {{"w", {1}, {3}, {2}}}, {}, sharding);
    EXPECT_TRUE(testing::one_line_with(complaint(), {"b.safetensors'", "DCP_SHARDING_INFO"}))
        << sharding;
  }
  write("b.safetensors", {{"w", {1, 1}, {3}, {2, 0}}});
  EXPECT_TRUE(testing::one_line_with(complaint(), {"b.safetensors'", "'w' at [2, 0]"}));
}

}  // namespace
}  // namespace nanofsdp::store
