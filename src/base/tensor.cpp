#include "base/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

namespace nanofsdp {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  NANOFSDP_CHECK_SHAPE(dims.size() <= dims_.size(), .what = "shape",
                       .expected = "4 dimensions at most", .got = fmt::format("{}", dims.size()));
  std::copy(dims.begin(), dims.end(), dims_.begin());
  std::int64_t room = (std::int64_t{1} << 60) - 1;  // 63 bits count the bytes of these elements
  for (const std::int64_t dim : dims) room = dim < 0 ? 0 : room / std::max<std::int64_t>(dim, 1);
  NANOFSDP_CHECK_SHAPE(room > 0, .what = "shape " + str(),
                       .expected = "no negative dimension, and fewer than 2^60 elements");
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims()) n *= dim;
  return n;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

Shape Shape::with(int i, std::int64_t n) const {
  const int last = std::min(rank_, 3);
  NANOFSDP_CHECK_SHAPE(i >= 0 && i <= last, .what = "dimension of " + str(),
                       .expected = fmt::format("one from 0 to {}", last), .got = std::to_string(i));
  auto dims = dims_;
  dims[static_cast<std::size_t>(i)] = n;
  return Shape(std::span(dims).first(static_cast<std::size_t>(std::max(rank_, i + 1))));
}

Tensor Tensor::view(Shape shape) const {
  NANOFSDP_CHECK_SHAPE(shape.numel() == numel(), .what = "view of a tensor " + shape_.str(),
                       .expected = fmt::format("{} elements", numel()), .got = shape.str());
  return Tensor(first_, shape, dtype_, device_);
}

Tensor Tensor::rows() const {
  const int last = shape_.rank() - 1;
  return view({shape_.with(last, 1).numel(), dim(last)});
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t count) const {
  NANOFSDP_CHECK_SHAPE(begin >= 0 && count >= 0 && count <= numel() - begin,
                       .what = "slice of a tensor " + shape_.str(),
                       .expected = fmt::format("a range within [0, {})", numel()),
                       .got = fmt::format("{} elements from {}", count, begin));
  const Address first = first_ + static_cast<std::uint64_t>(begin) * size_of(dtype_);
  return Tensor(first, {count}, dtype_, device_);
}

void Tensor::refuse(DType dtype) const {
  const bool valued = !is_simulated(device_);
  NANOFSDP_CHECK_SHAPE(
      false, .what = "elements of a tensor " + shape_.str(),
      .expected = std::string(name_of(dtype)),
      .got = valued ? std::string(name_of(dtype_)) : "no values: a simulated device",
      .hint = valued ? "" : "enqueue on its stream what reads and writes them");
}

Cost moves(std::initializer_list<Tensor> read, std::initializer_list<Tensor> written,
           double flops) {
  Cost cost;
  if (read.size() > 0) cost.flops = flops * static_cast<double>(read.begin()->numel());
  for (const Tensor& tensor : read) cost.read += static_cast<double>(tensor.bytes());
  for (const Tensor& tensor : written) {
    const auto bytes = static_cast<double>(tensor.bytes());
    cost.written += bytes;
    const bool seen = std::ranges::find(read, tensor.address(), &Tensor::address) != read.end();
    if (!seen) cost.overwritten += bytes;
  }
  return cost;
}

}  // namespace nanofsdp
