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

/// The shape of a tensor with up to four dimensions. A shape without dimensions is that of a
/// scalar, which has one element.
class Shape {
 public:
  Shape() = default;
  /// @throws ShapeError for more than four dimensions, a negative one, or 2^60 elements or more (a
  ///   dimension of 0 counts as 1 there)
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// @copydoc Shape(std::initializer_list<std::int64_t>)
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }  ///< number of dimensions
  /// The size of dimension i, counted from 0.
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t numel() const;  ///< number of elements; 1 without dimensions
  /// The sizes of all dimensions, outermost first.
  std::span<const std::int64_t> dims() const { return {dims_.data(), std::size_t(rank_)}; }
  std::string str() const;  ///< for messages: "[12, 64, 128]"
  /// A shape that differs only in the size of dimension i. If i is rank(), the new shape has one
  /// dimension more.
  /// @throws ShapeError if i is not in [0, rank()], and as a constructor does
  Shape with(int i, std::int64_t n) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

/// A view of elements. A copy of the view copies no elements, and no view owns or frees them. As
/// with std::span, elements can be written through a const Tensor. A default Tensor is empty: it
/// stands for an operand that is left out.
class Tensor {
 public:
  Tensor() = default;
  /// @param data row-major elements, which outlive every use of the view
  Tensor(void* data, Shape shape, DType dtype = DType::float32, Device device = Device::cpu)
      : Tensor(address_of(data), shape, dtype, device) {}
  /// The same for elements that begin at an address.
  Tensor(Address first, Shape shape, DType dtype, Device device)
      : first_(first), shape_(shape), dtype_(dtype), device_(device), present_(true) {}

  /// Whether it is left out, or has no elements.
  bool empty() const { return !present_ || numel() == 0; }
  const Shape& shape() const { return shape_; }        ///< sizes of the dimensions, outermost first
  DType dtype() const { return dtype_; }               ///< type of the elements
  Device device() const { return device_; }            ///< device on which the elements lie
  std::int64_t dim(int i) const { return shape_[i]; }  ///< size of dimension i, from 0
  std::int64_t numel() const { return present_ ? shape_.numel() : 0; }  ///< number of elements
  /// The size of all elements in bytes.
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(numel()) * size_of(dtype_); }
  Address address() const { return first_; }  ///< address of the first element
  /// Pointer to the first element; the device must have memory.
  void* raw() const { return pointer_to(first_); }

  /// Pointer to the first element, as T.
  /// @throws ShapeError if T is not the tensor's dtype, or the device is simulated
  template <ElementType T>
  T* data() const {
    if (dtype_of<T> != dtype_ || is_simulated(device_)) refuse(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  float* f32() const { return data<float>(); }  ///< the same as data<float>()

  /// The elements as a span of T.
  /// @throws ShapeError if T is not the tensor's dtype
  template <ElementType T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }

  /// The same elements with another shape.
  /// @throws ShapeError unless it has the same number of elements
  Tensor view(Shape shape) const;

  /// The same elements as rows: [..., n] becomes [numel / n, n].
  /// @pre at least one dimension, and n > 0
  Tensor rows() const;

  /// Elements [begin, begin + count) as a tensor of one dimension, [count].
  /// @throws ShapeError if the tensor ends before
  Tensor slice(std::int64_t begin, std::int64_t count) const;

 private:
  [[noreturn]] void refuse(DType dtype) const;

  Address first_ = 0;
  Shape shape_;
  DType dtype_ = DType::float32;
  Device device_ = Device::cpu;
  bool present_ = false;
};

/// The cost of one kernel that reads and writes each of these tensors once.
/// @param flops operations for each element of the first tensor that it reads
Cost moves(std::initializer_list<Tensor> read, std::initializer_list<Tensor> written,
           double flops = 0);

}  // namespace nanofsdp
