#include "store/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"

namespace nanofsdp::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = 8;  // bytes of the header's length

}  // namespace

// ---- writing

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : file_(std::move(path)) {
  for (const TensorInfo& tensor : tensors) missing_ += tensor.numel();
  const std::string text = write_header({metadata, std::move(tensors)});
  const std::uint64_t size = text.size();
  file_.write(std::as_bytes(std::span(&size, 1)));
  file_.write(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::append(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  NANOFSDP_CHECK(count <= missing_, .what = "safetensors: append",
                 .expected = fmt::format("at most {} more elements", missing_),
                 .got = fmt::to_string(count));
  file_.write(std::as_bytes(values));
  missing_ -= count;
}

const NewFile& SafetensorsWriter::finish() {
  NANOFSDP_CHECK(missing_ == 0, .what = "safetensors: finish", .expected = "every element appended",
                 .got = fmt::format("{} missing", missing_));
  file_.finish();
  return file_;
}

// ---- reading

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  const bool none = error == std::errc::no_such_file_or_directory;
  if (error) malformed(path_, "a safetensors file", none ? "no such file" : error.message());
  if (size < kPrefix) {
    malformed(path_, "8 bytes that give the header's length",
              fmt::format("a file of {} bytes", size));
  }
  file_.rdbuf()->pubsetbuf(nullptr, 0);  // tensors are read here and there, each at once
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
  std::uint64_t begin = data_begin_;
  for (const TensorInfo& tensor : header_.tensors) {
    places_[tensor.name] = {tensor, begin};
    begin += static_cast<std::uint64_t>(tensor.numel()) * sizeof(float);
  }
}

void SafetensorsFile::read_bytes(void* to, std::uint64_t bytes) {
  if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) {
    malformed(path_, "a file that can be read", std::strerror(errno));
  }
}

const SafetensorsFile::Place& SafetensorsFile::find(const TensorInfo& wanted) const {
  const auto place = places_.find(wanted.name);
  if (place == places_.end())
    malformed(path_, "a tensor '" + wanted.name + "'", "none of that name");
  const TensorInfo& tensor = place->second.first;
  if (tensor == wanted) return place->second;
  malformed(path_,
            fmt::format("tensor '{}' of shape [{}]", wanted.name, fmt::join(wanted.shape, ", ")),
            fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
}

void SafetensorsFile::read(const TensorInfo& wanted, std::int64_t first, std::span<float> to) {
  const auto& [tensor, begin] = find(wanted);
  const auto count = static_cast<std::int64_t>(to.size());
  NANOFSDP_CHECK(first >= 0 && first + count <= tensor.numel(), .what = "read of " + tensor.name,
                 .expected = fmt::format("elements within [0, {})", tensor.numel()),
                 .got = fmt::format("[{}, {})", first, first + count));
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(begin) + first * std::int64_t{sizeof(float)});
  read_bytes(to.data(), to.size_bytes());
}

std::vector<float> SafetensorsFile::read(const TensorInfo& wanted) {
  std::vector<float> values(static_cast<std::size_t>(find(wanted).first.numel()));
  read(wanted, 0, values);
  return values;
}

}  // namespace nanofsdp::store
