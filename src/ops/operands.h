#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/cuda.h"
#include "base/tensor.h"
#include "ops/attention.h"

namespace nanofsdp::ops {

/// @file
/// @brief Checks the operands of operators on both devices, and shares the loops of the CPU's
/// operators among threads.
///
/// Operands are named "operator: operand" in every message, as in "layer_norm: weight".

/// Requires that operands lie on the stream's device and that all activations have one dtype.
class Require {
 public:
  /// @param activation one of the call's activations. All others must have its dtype: bfloat16 if
  /// the device computes with bfloat16, else float32
  explicit Require(const Stream& stream, const Tensor& activation = {})
      : device_(stream.device()), dtype_(narrowest_of(activation)) {}

  /// @param dtype if it differs from that of activations
  /// @throws ShapeError unless `t` is on the stream's device with this shape and dtype
  void operator()(const char* operand, const Tensor& t, const Shape& shape,
                  std::optional<DType> dtype = {}) const {
    const bool fits = t.shape() == shape && t.numel() == shape.numel();
    check(fits, operand, t, shape.str(), dtype.value_or(dtype_));
  }

  /// A parameter that is read has the dtype of activations. Beside float32 activations it may be
  /// bfloat16, if the device computes with bfloat16.
  void parameter(const char* operand, const Tensor& t, const Shape& shape) const {
    (*this)(operand, t, shape, dtype_ == DType::bfloat16 ? dtype_ : narrowest_of(t));
  }

  /// Requires heads of attention, whose rows may have other columns, too.
  /// @throws ShapeError unless `x` is [B, T, heads, D] = `shape`, in rows on the stream's device
  void heads(const char* operand, const Heads& x, const Shape& shape) const {
    NANOFSDP_CHECK_SHAPE(x.heads == shape[2] && x.first >= 0, .what = operand,
                         .expected = fmt::format("{} heads, from column 0 or later", shape[2]),
                         .got = fmt::format("{}, from {}", x.heads, x.first),
                         .hint = "the heads of keys and of values divide those of queries");
    const std::int64_t columns = std::max(x.rows.dim(2), x.first + shape[2] * shape[3]);
    (*this)(operand, x.rows, {shape[0], shape[1], columns});
  }

  /// Requires a number of dimensions, of any sizes.
  /// @throws ShapeError unless `t` is an activation of `rank` dimensions, on the stream's device
  void rank(const char* operand, const Tensor& t, int rank) const {
    check(t.shape().rank() == rank, operand, t, fmt::format("of {} dimensions", rank), dtype_);
  }

  /// Requires a number of elements, in any shape.
  /// @param dtype if it differs from that of activations
  /// @throws ShapeError unless `t` is on the stream's device with `numel` elements of this dtype
  void numel(const char* operand, const Tensor& t, std::int64_t numel,
             std::optional<DType> dtype = {}) const {
    const std::string size = fmt::format("of {} elements", numel);
    check(t.numel() == numel, operand, t, size, dtype.value_or(dtype_));
  }

  /// @param any whether `t` may have any dtype
  /// @throws ShapeError unless `t` is on the stream's device with at least `numel` elements,
  /// float32 or bfloat16
  void at_least(const char* operand, const Tensor& t, std::int64_t numel, bool any = false) const {
    const DType dtype = any || t.dtype() == DType::bfloat16 ? t.dtype() : DType::float32;
    check(t.numel() >= numel, operand, t, fmt::format("of at least {} elements", numel), dtype);
  }

 private:
  // The dtype of `t` if the device computes with it, else float32.
  DType narrowest_of(const Tensor& t) const {
    const bool narrow = t.dtype() == DType::bfloat16 && has_bfloat16_arithmetic(device_);
    return narrow ? DType::bfloat16 : DType::float32;
  }

  static const char* place(Device device) { return device == Device::cpu ? "the CPU" : "the GPU"; }

  void check(bool fits, const char* operand, const Tensor& t, const std::string& size,
             DType dtype) const {
    NANOFSDP_CHECK_SHAPE(
        fits && t.dtype() == dtype && t.device() == device_, .what = operand,
        .expected = fmt::format("{} {} on {}", name_of(dtype), size, place(device_)),
        .got = t.raw() == nullptr && t.numel() == 0
                   ? "nothing"
                   : fmt::format("{} {} on {}", name_of(t.dtype()), t.shape().str(),
                                 place(t.device())));
  }

  Device device_;
  DType dtype_;  // dtype of activations
};

/// Checks the elements of an operand when the work runs: a bad one would read outside its row, and
/// before that they may not have been written yet.
/// @param operand the message names element i as "operand i"
/// @param least the smallest element that fits; 0, or -1 for none
/// @param fitting what the elements are, which lie in [0, end)
inline void require_indices(const char* operand, const Tensor& index, std::int32_t least,
                            const char* fitting, std::int64_t end) {
  const auto all = index.span<std::int32_t>();
  const auto bad = std::ranges::find_if(all, [=](auto i) { return i < least || i >= end; });
  NANOFSDP_CHECK(bad == all.end(), .what = fmt::format("{} {}", operand, bad - all.begin()),
                 .expected = fmt::format("{} in [0, {})", fitting, end),
                 .got = fmt::to_string(*bad));
}

/// The grain of a parallel_for whose index stands for `elements` elements. Fewer than about 16,000
/// elements are microseconds of work, for which waking another thread costs more than it saves.
inline std::int64_t grain_of(std::int64_t elements = 1) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
}

/// Enqueues an operator on operands that have been checked.
/// @param work what a CPU does. A GPU runs the twin in the operator's `.cu` file
template <class Operands, class Work>
void enqueue(Stream& stream, const Operands& a, const Work& work) {
  if constexpr (kCuda) {
    void run_on_gpu(Stream&, const Operands&);  // declares the twin
    if (stream.device() == Device::cuda) return run_on_gpu(stream, a);
  }
  stream.enqueue(cost(a), work);
}

/// Enqueues an operator that is a loop on a CPU: the stream's threads share the indices [0, n), and
/// each calls `body(begin, end)` for its own range, or `body(i)` for each index of it.
/// @param grain the fewest indices of a range (Stream::parallel_for)
template <class Operands, class Body>
void enqueue_loop(Stream& stream, const Operands& a, std::int64_t n, std::int64_t grain,
                  const Body& body) {
  enqueue(stream, a, [&stream, n, grain, body] { stream.parallel_for(n, grain, body); });
}

/// A loop fetches elements this many places before it needs them.
constexpr std::int64_t kAhead = 2048;

/// Fetches n elements into the cache while the loop computes with others. A loop that alternates
/// between memory and arithmetic would otherwise wait for one, then for the other. Fetching past
/// the end of a buffer does no harm.
inline void prefetch(const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

}  // namespace nanofsdp::ops
