#include "store/safetensors_header.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/usage_error.h"

namespace nanofsdp::store {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::usage_error;

const SafetensorsHeader kHeader{
    {{"chars", "\n\"\u00e9"}, {"n_layer", "4"}},
    {{"h.0.weight", {2, 3}}, {"a.bias", {5}}, {"scalar", {}}, {"nothing", {0, 4}}, {"last", {1}}}};
constexpr std::uint64_t kBytes = 13 * 4;

TEST(SafetensorsHeader, ReadsWhatItWrote) {
  const std::string json = write_header(kHeader);
  EXPECT_EQ(json.size() % 8, 0u);
  const SafetensorsHeader header = parse_header(json, kBytes, "m");
  EXPECT_EQ(header.metadata, kHeader.metadata);
  EXPECT_EQ(header.tensors, kHeader.tensors);
}

TEST(SafetensorsHeader, WritesJsonWhateverTheMetadata) {
  const std::string json = write_header({{{"text", "not UTF-8: \xff"}}, {}});
  EXPECT_NE(parse_header(json, 0, "m").metadata.at("text").find("not UTF-8: "), std::string::npos);
}

TEST(SafetensorsHeader, RefusesTwoTensorsOfOneName) {
  EXPECT_THROW(write_header({{}, {{"a", {1}}, {"a", {1}}}}), Error);
  EXPECT_THROW(write_header({{}, {{"__metadata__", {1}}}}), Error);
}

// One byte is changed anywhere. The reader accepts a header only if it makes sense, refuses it
// otherwise, and never crashes.
TEST(SafetensorsHeader, TrustsNoByte) {
  const std::string whole = write_header(kHeader);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string json = whole;
      json[at] = static_cast<char>(byte);
      try {
        std::int64_t numel = 0;
        for (const TensorInfo& t : parse_header(json, kBytes, "m").tensors) numel += t.numel();
        ASSERT_EQ(numel * 4, kBytes) << json;
      } catch (const UsageError&) {  // any other exception fails the test
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 10'000);
}

TEST(SafetensorsHeader, SaysWhatIsWrong) {
  const auto entry = [](const std::string& text) { return "{\"w\": {" + text + "}}"; };
  const std::string f32 = "\"dtype\": \"F32\", ";
  const auto offsets = [&](const std::string& shape, const std::string& offsets) {
    return entry(f32 + "\"shape\": " + shape + ", \"data_offsets\": " + offsets);
  };
  struct Case {
    std::string json;
    std::size_t data_bytes;
    const char* words;
  };
  const Case cases[] = {
      {"", 0, "JSON object"},
      {"[]", 0, "JSON object"},
      {"{\"w\": ", 0, "JSON object"},
      {std::string(100'000, '['), 0, "JSON object"},
      {"{\"w\": 3}", 0, "'w' to have 'shape'"},
      {"{\"__metadata__\": 3}", 0, "__metadata__"},
      {"{\"__metadata__\": {\"a\": 3}}", 0, "strings in __metadata__"},
      {entry("\"dtype\": \"BF16\", \"shape\": [1], \"data_offsets\": [0, 4]"), 4, "'w' to have as"},
      {entry("\"dtype\": 7, \"shape\": [1], \"data_offsets\": [0, 4]"), 4, "'w' to have 'dtype'"},
      {entry("\"shape\": [1], \"data_offsets\": [0, 4]"), 4, "'w' to have 'dtype'"},
      {entry(f32 + "\"data_offsets\": [0, 4]"), 4, "'shape', a list"},
      {entry(f32 + "\"shape\": [1]"), 4, "'data_offsets', a list"},
      {offsets("[-1]", "[0, 4]"), 4, "'shape', a list of integers from 0"},
      {offsets("[1.0]", "[0, 4]"), 4, "'shape', a list of integers from 0"},
      {offsets("[1]", "[0]"), 4, "as its shape says"},
      {offsets("[1]", "[0, 4, 8]"), 4, "as its shape says"},
      {offsets("[2]", "[0, 4]"), 4, "as its shape says"},
      {offsets("[1]", "[4, 0]"), 4, "as its shape says"},
      {offsets("[4294967296, 4294967296]", "[0, 0]"), 0, "as its shape says"},  // 4 * 2^64
      {offsets("[4611686018427387904]", "[0, 0]"), 0, "as its shape says"},     // 4 * 2^62
      {offsets("[1]", "[4, 8]"), 8, "'w' at byte 0"},
      {offsets("[1]", "[0, 4]"), 3, "4 bytes of data"},
      {offsets("[1]", "[0, 4]"), 5, "4 bytes of data"},
      {"{}", 4, "0 bytes of data"},
  };
  for (const Case& c : cases) {
    const std::string error = usage_error([&] { parse_header(c.json, c.data_bytes, "bad"); });
    EXPECT_TRUE(one_line_with(error, {"weights 'bad'", c.words})) << c.json.substr(0, 80);
  }
  const std::string overlap = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                  "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})";
  const std::string error = usage_error([&] { parse_header(overlap, 8, "bad"); });
  EXPECT_TRUE(one_line_with(error, {"'b' at byte 8"})) << error;
}

// Files of others may lack a tensor without elements, for it has nothing that could be read.
TEST(SameTensors, MayBeMissingIfTheyHaveNoElements) {
  const TensorInfo weight{"weight", {2, 3}}, none{"none", {0, 4}}, scalar{"scalar", {}};
  const std::vector<TensorInfo> model{weight, none, {"nothing", {5, 0, 2}}, scalar};
  const auto refusal = [&](const std::vector<TensorInfo>& file) {
    return usage_error([&] { require_same_tensors(model, file, "m"); });
  };
  EXPECT_EQ(refusal(model), "no error");
  EXPECT_EQ(refusal({scalar, weight}), "no error");
  EXPECT_EQ(refusal({none, scalar, weight}), "no error");
  EXPECT_TRUE(one_line_with(refusal({none, weight}), {"1 missing: scalar"}));
  EXPECT_TRUE(
      one_line_with(refusal({weight, scalar, {"none", {0, 5}}}), {"none ([0, 5], not [0, 4])"}));
  EXPECT_TRUE(one_line_with(refusal({weight, scalar, {"other", {0}}}), {"1 surplus: other"}));
}

}  // namespace
}  // namespace nanofsdp::store
