#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "store/rank_file.h"
#include "store/safetensors.h"
#include "support/mutator.h"
#include "support/temporary_directory.h"
#include "support/tensors.h"
#include "support/usage_error.h"

// Tests damaged checkpoints whose fingerprints are right, as if a person had made them. The law is
// that of every fuzz test: the result is a value, or a UsageError of one line.

namespace nanofsdp::store {
namespace {

using nanofsdp::testing::fuzz_rounds;
using nanofsdp::testing::Mutator;
using nanofsdp::testing::Owned;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using nlohmann::json;

struct Count {
  int taken = 0;
  int refused = 0;
};

template <class Action>
void attempt(Count& count, const Action& action) {
  try {
    action();
    ++count.taken;
  } catch (const UsageError& error) {
    ++count.refused;
    const std::string text = error.what();
    EXPECT_LT(text.size(), 3000u);
    for (const char c : text) ASSERT_TRUE(c < 0 || c >= ' ') << "control character in " << text;
  }
}

// Gives the manifest the fingerprint of its new contents.
std::string sign(const std::string& text) {
  json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return text;
  const auto dump = [&] { return j.dump(-1, ' ', false, json::error_handler_t::replace); };
  j.erase("fingerprint");
  j["fingerprint"] = fingerprint(dump());
  return dump();
}

TEST(FuzzCheckpoint, Manifests) {
  const std::string whole = write_manifest({.optimizer_steps = 7,
                                            .metadata = {{"alphabet", "abc"}, {"pieces", "[]"}},
                                            .files = {{10, 11}, {12, 13}}});
  json old = json::parse(whole);
  old["format"] = "nanofsdp checkpoint, version 1";
  old["iteration"] = 7;
  const std::string seeds[] = {whole, old.dump()};
  Mutator mutator(5);
  Count count;
  for (int i = 0; i < fuzz_rounds(10'000); ++i) {
    std::string text = mutator.damage(mutator.pick(seeds));
    if (mutator.below(4) != 0) text = sign(text);
    attempt(count, [&] {
      const Manifest manifest = parse_manifest(text, "m", "");
      ASSERT_FALSE(manifest.files.empty());
      ASSERT_GE(manifest.optimizer_steps, 0);
    });
  }
  EXPECT_GT(count.taken, 100);
  EXPECT_GT(count.refused, 2000);
}

TEST(FuzzCheckpoint, ManifestsWithoutEnd) {
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {deep, "{\"format\": \"nanofsdp checkpoint, version 1\", \"options\": " + deep,
        "{\"format\": \"nanofsdp checkpoint, version 1\", \"fingerprint\": 0, \"options\": " +
            deep + std::string(100'000, ']') + "}"}) {
    EXPECT_THROW(parse_manifest(text, "m", ""), UsageError);
  }
}

// Two parameters, in the files of two ranks.
const std::vector<TensorInfo> kModel = {{"a", {3, 4}}, {"b", {5}}}, kJustA = {kModel[0]};
StateSlice slice_of(const fsdp::ParameterSpec& parameter, fsdp::Range range, const Tensor& x) {
  const std::string& name = parameter.name;
  return {parameter, range, {{name, x}, {name + ".exp_avg", x}, {name + ".exp_avg_sq", x}}};
}
struct Saved {
  Owned<float> a{{3, 4}, 1}, b{{5}, 2};
  std::vector<StateSlice> slices(fsdp::Range of_a, fsdp::Range of_b) {
    const auto slice = [&](const char* name, Owned<float>& x, fsdp::Range range) {
      const Tensor part = x.view().slice(range.begin, range.size());
      return slice_of({name, x.shape}, range, part);
    };
    return {slice("a", a, of_a), slice("b", b, of_b)};
  }
};

TEST(FuzzCheckpoint, RangesThatAreNone) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const TemporaryDirectory directory;
  for (const char* range : {"[-1, 11]", "[12, 0]", "[-9223372036854775808, 9223372036854775807]",
                            "[0, 18446744073709551615]", "[0]", "{}", "\"0\"", "[null, 12]"}) {
    SafetensorsWriter writer(directory.file(rank_file_name(0, 1)), {},
                             {{"a", std::string(R"({"shape": [3, 4], "range": )") + range + "}"}});
    writer.finish();
    Saved other;
    try {
      read_rank_files(directory.file(""), 1, *stream, kModel, other.slices({2, 12}, {1, 5}), 1);
      ADD_FAILURE() << range;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("metadata"), std::string::npos) << error.what();
    }
  }
}

// The same for what says where the part of a rank of a tensor group lies.
TEST(FuzzCheckpoint, BlocksThatAreNone) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const TemporaryDirectory directory;
  for (const char* blocks :
       {"[0, 0, 2]", "[2, 2, 2]", "[2, -1, 2]", "[2, 0, 0]", "[2, 0, -1]", "[2]", "2",
        "[null, 0, 2]", "[7, 0, 2]", "[9223372036854775807, 0, 2]",
        "[1, 9223372036854775806, 9223372036854775807]", "[2, 0, 2, 9]", "[2, 1, 2]"}) {
    SafetensorsWriter writer(
        directory.file(rank_file_name(0, 1)), {{"a", {6}}},
        {{"a", std::string(R"({"shape": [3, 4], "range": [0, 6], "blocks": )") + blocks + "}"}});
    writer.append(std::vector<float>(6));
    writer.finish();
    Saved other;
    EXPECT_THROW(read_rank_files(directory.file(""), 1, *stream, kJustA,
                                 {other.slices({2, 12}, {1, 5})[0]}, 1),
                 UsageError)
        << blocks;
  }
}

// A parameter of another shape is another parameter, even with the same number of elements, in each
// of the files.
TEST(FuzzCheckpoint, ShapesThatAreOthers) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const TemporaryDirectory directory;
  const auto write = [&](std::size_t file, std::int64_t rows, fsdp::Range range) {
    Owned<float> x({range.size()}, 1);
    const StateSlice a = slice_of({"a", {rows, 12 / rows}}, range, x);
    write_rank_file(directory.file(rank_file_name(file, 2)), *stream, {a});
  };
  for (const std::int64_t first : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t second : {1, 2, 3, 4, 6, 12}) {
      write(0, first, {0, 7});
      write(1, second, {7, 12});
      Saved other;
      const std::string error = usage_error([&] {
        read_rank_files(directory.file(""), 2, *stream, kJustA, {other.slices({2, 12}, {1, 5})[0]},
                        1);
      });
      EXPECT_EQ(error.find("a has two shapes") != error.npos, first != second) << error;
      if (first != second) continue;
      EXPECT_EQ(error.find("1 of another shape: a ([") != error.npos, first != 3) << error;
      EXPECT_EQ(error == "no error", first == 3) << error;
    }
  }
}

// If a file does not say how many steps a parameter has made, it has made all steps of the
// optimizer.
TEST(FuzzCheckpoint, StepsThatAFileSaysOrNot) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const TemporaryDirectory directory;
  Saved saved;
  std::vector<StateSlice> slices = saved.slices({0, 12}, {0, 5});
  std::int64_t of_a = 3, of_b = 0;
  slices[0].steps = &of_a;  // the file does not say it for b
  write_rank_file(directory.file(rank_file_name(0, 1)), *stream, slices);
  slices[1].steps = &of_b;
  of_a = 0;
  read_rank_files(directory.file(""), 1, *stream, kModel, slices, 7);
  EXPECT_EQ(of_a, 3);
  EXPECT_EQ(of_b, 7);
}

TEST(FuzzCheckpoint, RankFiles) {
  const auto stream = make_compute_stream(Device::cpu, 1);
  const TemporaryDirectory directory;
  Saved saved;
  const std::string names[] = {rank_file_name(0, 2), rank_file_name(1, 2)};
  write_rank_file(directory.file(names[0]), *stream, saved.slices({0, 7}, {0, 2}));
  write_rank_file(directory.file(names[1]), *stream, saved.slices({7, 12}, {2, 5}));
  const std::string files[] = {testing::read_file(directory.file(names[0])),
                               testing::read_file(directory.file(names[1]))};
  // Three tensors for each piece.
  const std::size_t data_bytes[] = {3 * 4 * (7 + 2), 3 * 4 * (5 + 3)};
  const auto load = [&] {
    Saved other;
    read_rank_files(directory.file(""), 2, *stream, kModel, other.slices({2, 12}, {1, 5}), 1);
  };
  load();
  Mutator mutator(6);
  Count count;
  for (int i = 0; i < fuzz_rounds(4'000); ++i) {
    const std::size_t file = mutator.below(2);
    std::uint64_t header = 0;
    std::memcpy(&header, files[file].data(), sizeof header);
    const std::string text = mutator.damage(files[file].substr(8, header));
    header = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    const std::string data = files[file].substr(files[file].size() - data_bytes[file]);
    directory.write(names[file], bytes + text + data);
    attempt(count, load);
    // Otherwise both are damaged.
    if (mutator.below(4) != 0) directory.write(names[file], files[file]);
  }
  EXPECT_GT(count.taken, 10);
  EXPECT_GT(count.refused, 2000);
}

}  // namespace
}  // namespace nanofsdp::store
