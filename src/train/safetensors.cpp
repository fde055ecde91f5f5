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
#include "base/platform.h"

namespace nanofsdp::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = 8;                 // bytes of the header's length
constexpr std::uint64_t kLargestHeader = 8'000'000;  // more than any model's of ours

[[noreturn]] void cannot_write(const std::string& path) {
  throw UsageError({.what = "cannot write '" + path + "'", .got = std::strerror(errno)});
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

[[noreturn]] void malformed(const std::string& path, const std::string& expected,
                            const std::string& got) {
  throw UsageError({.what = "weights '" + path + "'", .expected = expected, .got = got});
}

}  // namespace

// ---- writing

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : path_(std::move(path)), temporary_(path_ + ".tmp") {
  for (const TensorInfo& tensor : tensors) missing_ += tensor.numel();
  const std::string text = write_header({metadata, std::move(tensors)});
  file_ = open_nameless(directory_of(path_));
  nameless_ = file_ >= 0;
  if (!nameless_) {
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (file_ < 0) cannot_write(temporary_);
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
  if (!nameless_) ::unlink(temporary_.c_str());
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
  if (::fsync(file_) != 0) cannot_write(path_);
  if (nameless_) {
    ::unlink(temporary_.c_str());  // what a killed process may have left in the line below
    if (!name_file(file_, temporary_)) cannot_write(path_);
    nameless_ = false;
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) cannot_write(path_);
  ::close(std::exchange(file_, -1));
  // The new name, too, is on the disk only when its directory is. Not every file system can.
  const int fd = ::open(directory_of(path_).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

// ---- reading

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  if (error) malformed(path_, "a safetensors file", "no such file");
  if (size < kPrefix) {
    malformed(path_, "8 bytes that give the header's length",
              fmt::format("a file of {} bytes", size));
  }
  file_.open(path_, std::ios::binary);
  std::uint64_t header_size = 0;
  read_bytes(&header_size, kPrefix);
  const std::uint64_t room = std::min(size - kPrefix, kLargestHeader);
  if (header_size > room) {
    malformed(path_, fmt::format("a header of at most {} bytes", room),
              fmt::to_string(header_size));
  }
  std::string text(header_size, '\0');
  read_bytes(text.data(), header_size);
  data_begin_ = kPrefix + header_size;
  header_ = parse_header(text, size - data_begin_, path_);
}

void SafetensorsFile::read_bytes(void* to, std::uint64_t bytes) {
  if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) {
    malformed(path_, "a file that can be read", std::strerror(errno));
  }
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
    read_bytes(values.data(), values.size() * sizeof(float));
    return values;
  }
  malformed(path_, "a tensor '" + wanted.name + "'", "none of that name");
}

}  // namespace nanofsdp::train
