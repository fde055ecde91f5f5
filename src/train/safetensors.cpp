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
#include <system_error>
#include <utility>

#include "base/check.h"

namespace nanofsdp::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = 8;                   // bytes of the header's length
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the format's own limit

[[noreturn]] void cannot_write(const std::string& path) {
  throw UsageError({.what = "cannot write '" + path + "'", .got = std::strerror(errno)});
}

[[noreturn]] void malformed(const std::string& path, const std::string& expected,
                            const std::string& got) {
  throw UsageError({.what = "weights '" + path + "'", .expected = expected, .got = got});
}

}  // namespace

// ---- writing

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : path_(std::move(path)) {
  for (const TensorInfo& tensor : tensors) missing_ += tensor.numel();
  const std::string text = write_header({metadata, std::move(tensors)});
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
  if (!std::filesystem::is_regular_file(path_, error)) {
    malformed(path_, "a safetensors file", "no such file");
  }
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
  header_ = parse_header(text, size - data_begin_, path_);
}

std::vector<float> SafetensorsFile::read(const TensorInfo& wanted) {
  std::uint64_t begin = data_begin_;
  for (const TensorInfo& tensor : header_.tensors) {
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
