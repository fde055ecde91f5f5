#include "train/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/check.h"

namespace nanofsdp::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = 8;                   // bytes of the header's length
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // not UTF-8
constexpr char kMetadata[] = "__metadata__";

[[noreturn]] void cannot_write(const std::string& path) {
  throw UsageError({.what = "cannot write '" + path + "'", .got = std::strerror(errno)});
}

/// a * b, or nothing if that is no 64-bit byte count.
bool multiply(std::uint64_t& a, std::uint64_t b) {
  if (b != 0 && a > std::uint64_t(std::numeric_limits<std::int64_t>::max()) / b) return false;
  a *= b;
  return true;
}

[[noreturn]] void malformed(const std::string& path, const std::string& expected,
                            const std::string& got) {
  throw UsageError({.what = "weights '" + path + "'", .expected = expected, .got = got});
}

/// A tensor and its bytes [begin, end) of the data.
struct Placed {
  std::uint64_t begin;
  std::uint64_t end;
  TensorInfo info;
};

/// The JSON of a file, distrusted.
class Header {
 public:
  explicit Header(const std::string& path) : path_(path) {}

  void parse(const std::string& text, std::uint64_t data_bytes);

  Metadata metadata;
  std::vector<TensorInfo> tensors;

 private:
  std::vector<std::uint64_t> integers(const nlohmann::json& entry, const std::string& name,
                                      const char* key) const;
  Placed place(const std::string& name, const nlohmann::json& entry) const;
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    malformed(path_, expected, got);
  }

  const std::string& path_;
};

std::vector<std::uint64_t> Header::integers(const nlohmann::json& entry, const std::string& name,
                                            const char* key) const {
  const bool present = entry.is_object() && entry.contains(key);
  const auto is_unsigned = [](const nlohmann::json& item) { return item.is_number_unsigned(); };
  if (!present || !entry[key].is_array() ||
      !std::all_of(entry[key].begin(), entry[key].end(), is_unsigned)) {
    fail(fmt::format("tensor '{}' to have '{}', a list of integers from 0 up", name, key),
         present ? "something else" : "none");
  }
  return entry[key].get<std::vector<std::uint64_t>>();
}

Placed Header::place(const std::string& name, const nlohmann::json& entry) const {
  const auto shape = integers(entry, name, "shape");
  const auto offsets = integers(entry, name, "data_offsets");
  if (entry.value("dtype", nlohmann::json()) != "F32") {
    fail(fmt::format("tensor '{}' in F32", name), "another dtype");
  }
  std::uint64_t bytes = sizeof(float);
  bool fits = offsets.size() == 2 && offsets[0] <= offsets[1];
  for (const std::uint64_t dim : shape) fits = fits && multiply(bytes, dim);
  if (!fits || offsets[1] - offsets[0] != bytes) {
    fail(fmt::format("tensor '{}' to have as many bytes as its shape says", name),
         fmt::format("data_offsets [{}] for shape [{}]", fmt::join(offsets, ", "),
                     fmt::join(shape, ", ")));
  }
  return {offsets[0], offsets[1], {name, {shape.begin(), shape.end()}}};
}

void Header::parse(const std::string& text, std::uint64_t data_bytes) {
  const auto header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail("a header that is a JSON object", "something else");

  std::vector<Placed> placed;
  for (const auto& item : header.items()) {
    if (item.key() != kMetadata) {
      placed.push_back(place(item.key(), item.value()));
      continue;
    }
    if (!item.value().is_object()) fail("__metadata__ to be a JSON object", "something else");
    for (const auto& pair : item.value().items()) {
      if (!pair.value().is_string()) fail("strings in __metadata__", "another type");
      metadata[pair.key()] = pair.value().get<std::string>();
    }
  }

  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  for (Placed& tensor : placed) {
    if (tensor.begin != next) {
      fail(fmt::format("tensor '{}' at byte {} of the data", tensor.info.name, next),
           fmt::to_string(tensor.begin));
    }
    next = tensor.end;
    tensors.push_back(std::move(tensor.info));
  }
  if (next != data_bytes) {
    fail(fmt::format("{} bytes of data, as the header says", next), fmt::to_string(data_bytes));
  }
}

}  // namespace

std::int64_t TensorInfo::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

// ---- writing

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : path_(std::move(path)) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const TensorInfo& tensor : tensors) {
    NANOFSDP_CHECK(!header.contains(tensor.name) && tensor.name != kMetadata,
                   .what = "safetensors: tensor " + tensor.name, .expected = "a name of its own");
    const std::int64_t end = missing_ + tensor.numel();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {missing_ * 4, end * 4}}};
    missing_ = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump(-1, ' ', false, kReplace);
  text.resize((text.size() + 7) / 8 * 8, ' ');

  const std::string temporary = path_ + ".tmp";
  file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) cannot_write(temporary);
  const std::uint64_t size = text.size();
  try {
    write(&size, sizeof size);
    write(text.data(), text.size());
  } catch (...) {
    abandon();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() { abandon(); }

void SafetensorsWriter::abandon() {
  if (file_ < 0) return;
  ::close(std::exchange(file_, -1));
  ::unlink((path_ + ".tmp").c_str());
}

void SafetensorsWriter::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_);
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void SafetensorsWriter::append(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  NANOFSDP_CHECK(file_ >= 0 && count <= missing_, .what = "safetensors: append",
                 .expected = fmt::format("at most {} more elements", missing_),
                 .got = fmt::to_string(count));
  write(values.data(), values.size_bytes());
  missing_ -= count;
}

void SafetensorsWriter::finish() {
  NANOFSDP_CHECK(file_ >= 0 && missing_ == 0, .what = "safetensors: finish",
                 .expected = "every element appended", .got = fmt::format("{} missing", missing_));
  const std::string temporary = path_ + ".tmp";
  if (::fsync(file_) != 0 || std::rename(temporary.c_str(), path_.c_str()) != 0) {
    cannot_write(path_);
  }
  ::close(std::exchange(file_, -1));
  // The new name, too, is on the disk only when its directory is. Not every file system can.
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  const int fd = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

// ---- reading

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error))
    malformed(path_, "a safetensors file", "no such file");
  file_.open(path_, std::ios::binary | std::ios::ate);
  if (!file_) malformed(path_, "a file that can be read", std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(file_.tellg());

  std::uint64_t header_size = 0;
  file_.seekg(0);
  if (size < kPrefix || !file_.read(reinterpret_cast<char*>(&header_size), kPrefix)) {
    malformed(path_, "8 bytes that give the header's length",
              fmt::format("a file of {} bytes", size));
  }
  const std::uint64_t room = std::min(size - kPrefix, kLargestHeader);
  if (header_size > room) {
    malformed(path_, fmt::format("a header of at most {} bytes", room),
              fmt::to_string(header_size));
  }
  std::string text(header_size, '\0');
  if (!file_.read(text.data(), static_cast<std::streamsize>(header_size))) {
    malformed(path_, "a file that can be read", "an error in mid-file");
  }
  data_begin_ = kPrefix + header_size;
  Header header(path_);
  header.parse(text, size - data_begin_);
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
}

std::vector<float> SafetensorsFile::read(const TensorInfo& wanted) {
  std::uint64_t begin = data_begin_;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.name != wanted.name) {
      begin += static_cast<std::uint64_t>(tensor.numel()) * 4;
      continue;
    }
    if (tensor != wanted) {
      malformed(
          path_,
          fmt::format("tensor '{}' of shape [{}]", wanted.name, fmt::join(wanted.shape, ", ")),
          fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(begin));
    if (!file_.read(reinterpret_cast<char*>(values.data()),
                    static_cast<std::streamsize>(values.size() * sizeof(float)))) {
      malformed(path_, "a file that can be read", "an error in tensor '" + wanted.name + "'");
    }
    return values;
  }
  malformed(path_, "a tensor '" + wanted.name + "'", "none of that name");
}

}  // namespace nanofsdp::train
