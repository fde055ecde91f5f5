#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/device.h"
#include "base/dtype.h"

namespace nanofsdp {

/// @file
/// @brief A typed, row-major, contiguous view of memory that it does not own.

/// Up to four dimensions; no dimension is a scalar of one element.
class Shape {
 public:
  Shape() = default;
  /// @throws ShapeError for more than four dimensions, or a negative one
  Shape(std::initializer_list<std::int64_t> dims);
  /// @copydoc Shape(std::initializer_list<std::int64_t>)
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }  ///< dimensions
  /// Dimension i, from 0.
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t numel() const;  ///< elements; 1 without dimensions
  /// All dimensions, outermost first.
  std::span<const std::int64_t> dims() const { return {dims_.data(), std::size_t(rank_)}; }
  std::string str() const;  ///< "[12, 64, 128]"
  /// The same but for dimension i, which may be one more than it has.
  /// @throws std::out_of_range if i is negative, or more than four dimensions are too few
  Shape with(int i, std::int64_t n) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

/// A view: copying it copies no elements, and it never owns or frees them. Like std::span, a const
/// Tensor still lets its elements be written. A default Tensor is empty: an operand left out.
class Tensor {
 public:
  Tensor() = default;
  /// @param data row-major elements, which outlive every use of the view
  Tensor(void* data, Shape shape, DType dtype = DType::float32, Device device = Device::cpu)
      : Tensor(address_of(data), shape, dtype, device) {}
  /// The same, of elements that begin at an address.
  Tensor(Address first, Shape shape, DType dtype, Device device)
      : first_(first), shape_(shape), dtype_(dtype), device_(device), present_(true) {}

  bool empty() const { return !present_ || numel() == 0; }  ///< left out, or no elements
  const Shape& shape() const { return shape_; }             ///< outermost dimension first
  DType dtype() const { return dtype_; }                    ///< of the elements
  Device device() const { return device_; }                 ///< where they lie
  std::int64_t dim(int i) const { return shape_[i]; }       ///< dimension i, from 0
  std::int64_t numel() const { return present_ ? shape_.numel() : 0; }  ///< elements
  /// The size of the elements.
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(numel()) * size_of(dtype_); }
  Address address() const { return first_; }        ///< where the first element is
  void* raw() const { return pointer_to(first_); }  ///< the first element, of a device with memory

  /// The elements as T.
  /// @throws ShapeError if T is not the tensor's dtype, or the device is a simulated one
  template <class T>
  T* data() const {
    require(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  float* f32() const { return data<float>(); }  ///< as data<float>()

  /// The elements as a span of T.
  /// @throws ShapeError if T is not the tensor's dtype
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }

  /// The same elements under another shape.
  /// @throws ShapeError unless it has as many
  Tensor view(Shape shape) const;

  /// [..., n] as rows [numel / n, n].
  /// @pre at least one dimension, and n > 0
  Tensor rows() const;

  /// Elements [begin, begin + count) as one dimension, [count].
  /// @throws ShapeError if there are not so many
  Tensor slice(std::int64_t begin, std::int64_t count) const;

 private:
  void require(DType dtype) const {
    if (dtype != dtype_ || is_simulated(device_)) refuse(dtype);
  }
  [[noreturn]] void refuse(DType dtype) const;

  Address first_ = 0;
  Shape shape_;
  DType dtype_ = DType::float32;
  Device device_ = Device::cpu;
  bool present_ = false;
};

/// The cost of work that reads and writes each of these once, in one kernel.
/// @param flops for each element of the first that is read
Cost moves(std::initializer_list<Tensor> read, std::initializer_list<Tensor> written,
           double flops = 0);

}  // namespace nanofsdp
