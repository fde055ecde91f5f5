#include "store/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/dtype.h"

namespace nanofsdp::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = 8;  // bytes that hold the header's length

// If the first 8 bytes of a file are no length, this says what the file is and what to do about it.
Fault stranger(std::uint64_t first) {
  const std::string_view text(reinterpret_cast<const char*>(&first), sizeof first);
  if (text == "version ")
    return {.got = "a pointer of Git LFS", .hint = "`git lfs pull` fetches it"};
  if (text.starts_with("PK\3\4") || text.starts_with("\x80\x02"))
    return {.got = "PyTorch's own format", .hint = "save it with safetensors.torch.save_file"};
  if (text[0] == '<') return {.got = "a web page", .hint = "fetch the file behind it"};
  return {.got = fmt::to_string(first)};
}

// Widens an IEEE 754 number of 16 bits: 5 of exponent, 10 of mantissa.
float to_float32_of_half(std::uint16_t bits) {
  const std::uint32_t moved = (bits & 0x7fffu) << 13;  // its exponent is too small by 112
  const bool finite = (bits & 0x7c00) != 0x7c00;
  const float size =
      finite ? std::bit_cast<float>(moved) * 0x1p112f : std::bit_cast<float>(0x7f800000u | moved);
  return (bits & 0x8000) != 0 ? -size : size;
}

}  // namespace

// ---- writing

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : file_(std::move(path)), tensors_(std::move(tensors)) {
  const std::string text = write_header({metadata, tensors_});
  const std::uint64_t size = text.size();
  file_.write(std::as_bytes(std::span(&size, 1)));
  file_.write(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::append(std::span<const float> values) {
  const bool expects = next_ < tensors_.size();
  const std::int64_t numel = expects ? tensors_[next_].numel() : 0;
  NANOFSDP_CHECK(expects && std::ssize(values) == numel, .what = "safetensors: append",
                 .expected = expects
                                 ? fmt::format("the {} elements of {}", numel, tensors_[next_].name)
                                 : "no more tensors",
                 .got = fmt::to_string(values.size()));
  const std::string& dtype = tensors_[next_++].dtype;
  if (dtype == "F32") return file_.write(std::as_bytes(values));
  NANOFSDP_CHECK(dtype == "BF16", "safetensors: append", "a tensor of F32 or BF16", dtype);
  std::vector<bfloat16> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), to_bfloat16);
  file_.write(std::as_bytes(std::span(rounded)));
}

const NewFile& SafetensorsWriter::finish() {
  NANOFSDP_CHECK(next_ == tensors_.size(), .what = "safetensors: finish",
                 .expected = "every tensor appended",
                 .got = fmt::format("{} missing", tensors_.size() - next_));
  file_.finish();
  return file_;
}

// ---- reading

SafetensorsFile::SafetensorsFile(std::string path)
    : path_(std::move(path)),
      file_(path_, {.what = "weights '" + path_ + "'", .expected = "a safetensors file"}) {
  const std::size_t size = file_.bytes().size();
  if (size < kPrefix)
    malformed(path_, "8 bytes that give the header's length",
              fmt::format("a file of {} bytes", size));
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, file_.bytes().data(), kPrefix);
  const std::uint64_t room = std::min(size - kPrefix, kLargestHeader);
  if (header_size > room) {
    const Fault it = stranger(header_size);
    malformed(path_, fmt::format("a header of at most {} bytes", room), it.got, it.hint);
  }
  const auto header = file_.bytes().subspan(kPrefix, header_size);
  data_ = file_.bytes().subspan(kPrefix + header_size);
  header_ = parse_header({reinterpret_cast<const char*>(header.data()), header.size()},
                         data_.size(), path_);
  for (const TensorInfo& tensor : header_.tensors) named_[tensor.name] = &tensor;
}

const TensorInfo& SafetensorsFile::find(const TensorInfo& wanted) const {
  const auto found = named_.find(wanted.name);
  require_tensor(wanted, found == named_.end() ? nullptr : found->second, path_);
  return *found->second;
}

void SafetensorsFile::read(const TensorInfo& wanted, std::int64_t first,
                           std::span<float> to) const {
  const TensorInfo& tensor = find(wanted);
  const auto count = static_cast<std::int64_t>(to.size());
  NANOFSDP_CHECK(first >= 0 && first <= tensor.numel() - count, .what = "read of " + tensor.name,
                 .expected = fmt::format("elements within [0, {})", tensor.numel()),
                 .got = fmt::format("[{}, {})", first, first + count));
  const bool narrow = tensor.dtype == "BF16" || tensor.dtype == "F16";
  const std::size_t size = narrow ? sizeof(std::uint16_t) : sizeof(float);
  const auto from =
      data_.subspan(tensor.begin + static_cast<std::size_t>(first) * size, to.size() * size);
  if (!narrow) return void(std::ranges::copy(from, std::as_writable_bytes(to).begin()));
  std::vector<std::uint16_t> bits(to.size());
  std::ranges::copy(from, std::as_writable_bytes(std::span(bits)).begin());
  const bool brain = tensor.dtype == "BF16";
  std::ranges::transform(bits, to.begin(), [=](std::uint16_t x) {
    return brain ? to_float32(bfloat16{x}) : to_float32_of_half(x);
  });
}

std::vector<float> SafetensorsFile::read(const TensorInfo& wanted) const {
  std::vector<float> values(static_cast<std::size_t>(find(wanted).numel()));
  read(wanted, 0, values);
  return values;
}

}  // namespace nanofsdp::store
