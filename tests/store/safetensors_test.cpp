#include "store/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "base/platform.h"
#include "store/new_file.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::store {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::read_file;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Floats = std::vector<float>;

const std::vector<TensorInfo> kTensors{
    {"h.0.weight", {2, 3}}, {"a.bias", {5}}, {"scalar", {}}, {"nothing", {0, 4}}, {"last", {1}}};

Floats numbers(std::int64_t n, float first) {
  Floats values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

void write_all(const std::string& path, float first = 0) {
  SafetensorsWriter writer(path, kTensors, {{"chars", "\n\"\u00e9"}, {"n_layer", "4"}});
  for (const TensorInfo& tensor : kTensors) writer.append(numbers(tensor.numel(), first));
  writer.finish();
}

/// The bytes of a file with this header and `data_bytes` zeros behind it.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  const std::uint64_t size = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + json + std::string(data_bytes, '\0');
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  write_all(path, 0.1f);
  SafetensorsFile file(path);
  EXPECT_EQ(file.tensors(), kTensors);
  EXPECT_EQ(file.metadata(), (Metadata{{"chars", "\n\"\u00e9"}, {"n_layer", "4"}}));
  for (auto tensor = kTensors.rbegin(); tensor != kTensors.rend(); ++tensor) {  // in any order
    EXPECT_EQ(file.read(*tensor), numbers(tensor->numel(), 0.1f)) << tensor->name;
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

// The bytes are those of the format: the length, the JSON, the elements.
TEST(Safetensors, WritesTheFormat) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  SafetensorsWriter writer(path, {{"w", {2}}}, {});
  writer.append(Floats{1.0f, -2.0f});
  writer.finish();
  std::string json = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(read_file(path), file_of(json, 0) + data);
}

// The law: at every moment the name leads to a whole file, the old one or the new one.
TEST(Safetensors, TheOldFileStaysUntilTheNewOneIsWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  write_all(path, 1);
  const std::string old = read_file(path);
  {
    SafetensorsWriter writer(path, kTensors, {});
    writer.append(numbers(6, 2));
    EXPECT_EQ(read_file(path), old);
  }  // the writer is destroyed before finish()
  EXPECT_EQ(read_file(path), old);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  write_all(path, 2);
  EXPECT_EQ(SafetensorsFile(path).read(kTensors[0]), numbers(6, 2));
}

TEST(Safetensors, LeavesNothingBehindWhenItFails) {
  const TemporaryDirectory directory;
  const std::string nowhere = directory.file("none/model");
  const std::string error = usage_error([&] { SafetensorsWriter(nowhere, kTensors, {}); });
  EXPECT_TRUE(one_line_with(error, {"cannot write", nowhere.c_str(), "No such file"})) << error;
  EXPECT_THROW(SafetensorsWriter(directory.file("m"), {{"a", {1}}, {"a", {1}}}, {}), Error);
  {
    SafetensorsWriter writer(directory.file("m"), {{"a", {3}}}, {});
    EXPECT_THROW(writer.append(numbers(4, 0)), Error);  // too many
    EXPECT_THROW(writer.append(numbers(2, 0)), Error);  // too few
    EXPECT_THROW(writer.finish(), Error);               // none
    writer.append(numbers(3, 0));
    EXPECT_THROW(writer.append({}), Error);  // no tensor is left
  }
  EXPECT_TRUE(directory.empty());
}

// A kill cannot be caught. It leaves a file under another name, which the next writer replaces.
TEST(Safetensors, IsNeverHalfThereWhenItsWriterIsKilled) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model");
  const auto write_half = [&] {
    SafetensorsWriter writer(path, kTensors, {});
    writer.append(numbers(6, 2));
    std::raise(SIGKILL);
  };
  EXPECT_EXIT(write_half(), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(path + ".tmp"));
  write_all(path, 1);
  EXPECT_EQ(SafetensorsFile(path).read(kTensors[0]), numbers(6, 1));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Safetensors, SaysThatTheDiskIsFull) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = usage_error([&] { SafetensorsWriter(path, kTensors, {}); });
  NewFile file(path);
  const std::string half = usage_error([&] { file.write(std::vector<std::byte>(200)); });
  const std::string nameless = usage_error([&] { file.finish(); });  // the name is for whole files
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(one_line_with(error, {"cannot write", path.c_str(), "File too large"})) << error;
  EXPECT_TRUE(one_line_with(half, {"cannot write", path.c_str(), "File too large"})) << half;
  EXPECT_TRUE(one_line_with(nameless, {"cannot write", path.c_str()})) << nameless;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, NamesATensorThatIsNotThere) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model");
  write_all(path);
  SafetensorsFile file(path);
  const auto error = [&](const TensorInfo& tensor) {
    return usage_error([&] { file.read(tensor); });
  };
  EXPECT_TRUE(one_line_with(error({"wte", {2, 3}}), {"model", "'wte'", "none of that name"}));
  EXPECT_TRUE(one_line_with(error({"a.bias", {2, 3}}), {"'a.bias'", "[2, 3]", "got [5]"}));
  EXPECT_EQ(file.read({"last", {1}}), numbers(1, 0));  // still usable
  std::vector<float> room(4);
  const std::int64_t far = std::numeric_limits<std::int64_t>::max() - 3;
  testing::expect_error<Error>([&] { file.read({"a.bias", {5}}, far, room); }, "read of a.bias");
}

TEST(SafetensorsMalformed, NoTruncationIsTaken) {
  const TemporaryDirectory directory;
  write_all(directory.file("whole"));
  const std::string whole = read_file(directory.file("whole"));
  for (std::size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 7) {
    const std::string path = directory.write("cut", whole.substr(0, size));
    EXPECT_NE(usage_error([&] { SafetensorsFile{path}; }), "no error") << size;
  }
  const std::string longer = directory.write("longer", whole + "x");
  EXPECT_TRUE(one_line_with(usage_error([&] { SafetensorsFile{longer}; }), {"bytes of data"}));
}

TEST(SafetensorsMalformed, TheLengthOfTheHeaderIsNotTrusted) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& bytes) {
    const std::string path = directory.write("bad", bytes);
    return usage_error([&] { SafetensorsFile{path}; });
  };
  EXPECT_TRUE(one_line_with(error("1234567"), {"8 bytes", "a file of 7 bytes"}));
  EXPECT_TRUE(one_line_with(error(std::string(8, '\xff') + "{}"), {"header of at most 2 bytes"}));
  EXPECT_TRUE(one_line_with(error("\x3" + std::string(7, '\0') + "{}"), {"at most 2 bytes"}));
  EXPECT_TRUE(one_line_with(error(std::string(7, '\0') + "\x7f{}"), {"header of at most 2 bytes"}));
  EXPECT_TRUE(one_line_with(usage_error([] { SafetensorsFile{"/nowhere/m"}; }),
                            {"/nowhere/m", "no such file"}));
  EXPECT_TRUE(one_line_with(usage_error([&] { SafetensorsFile{directory.file("")}; }),
                            {"a safetensors file"}));
}

TEST(Safetensors, RefusesADtypeThatItCannotWiden) {
  for (const std::string dtype : {"I32", "U32", "F64", "F8_E4M3", "BOOL", "SOMETHING_NEW"}) {
    const TemporaryDirectory directory;
    const std::size_t bytes = bytes_of_dtype(dtype) == 0 ? 4 : bytes_of_dtype(dtype);
    std::string text = R"({"w":{"dtype":")" + dtype + R"(","shape":[1],"data_offsets":[0,)" +
                       std::to_string(bytes) + "]}}";
    const std::uint64_t size = text.size();
    text.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
    SafetensorsFile file(directory.write("w", text + std::string(bytes, '\1')));
    const std::string error = usage_error([&] { file.read({"w", {1}}); });
    EXPECT_TRUE(one_line_with(error, {"'w' in F32, BF16 or F16", ("got " + dtype).c_str()}))
        << error;
  }
}

// Values are float32, and are written as they are or as bfloat16.
TEST(Safetensors, WritesNoOtherDtype) {
  for (const std::string dtype : {"F16", "I64", "F64", "F8_E4M3", "f32", ""}) {
    const TemporaryDirectory directory;
    nanofsdp::testing::expect_error<Error>(
        [&] {
          SafetensorsWriter writer(directory.file("w"), {{"w", {2}, dtype}}, {});
          writer.append(std::vector<float>{1, 2});
        },
        "a tensor of F32 or BF16");
    EXPECT_FALSE(std::filesystem::exists(directory.file("w")));
  }
}

// Each of the 65,536 numbers is compared with the definition of the format.
TEST(Safetensors, WidensFloat16Exactly) {
  const TemporaryDirectory directory;
  std::string text = R"({"w":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  text.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
  for (int bits = 0; bits < 65536; ++bits)
    text += {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
  SafetensorsFile file(directory.write("w", text));
  const std::vector<float> values = file.read({"w", {65536}});
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    const float sign = bits < 32768 ? 1 : -1, got = values[static_cast<std::size_t>(bits)];
    if (exponent == 31 && mantissa > 0) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else if (exponent == 31) {
      EXPECT_EQ(got, sign * HUGE_VALF);
    } else {
      const double parts = exponent == 0 ? mantissa : mantissa + 1024;
      EXPECT_EQ(got, sign * std::ldexp(parts, std::max(exponent, 1) - 25)) << bits;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::store
