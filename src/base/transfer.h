#pragma once

#include <span>
#include <vector>

#include "base/tensor.h"

namespace nanofsdp {

/// @file
/// @brief Copies between the memory of the host and of a device. This is the only way for the host
/// to read a tensor that may lie on a GPU, and to copy its own data there.

/// Copies the elements of `in` to `out`, both in the host's memory, without a stream. Between
/// float32 and bfloat16 it rounds or widens; equal dtypes are copied as they are.
void convert(const Tensor& in, const Tensor& out);

/// Enqueues out = in. Each tensor lies on the host or on the stream's device. Bytes are copied as
/// they are. Between float32 and bfloat16 the host converts, so one of the two tensors must lie
/// there. When the call returns, a tensor on the host may be changed or freed, and an `out` on the
/// host may be read: a copy to the host waits for all earlier work. So the host calls it, and not
/// work inside a stream.
/// @throws the error of that work
/// @throws ShapeError if the numbers of elements differ, or the host cannot convert the dtypes
void transfer(Stream& stream, const Tensor& in, const Tensor& out);

/// Copies the bytes at `from`, on the stream's device, to `to`. Work inside a stream calls this;
/// all threads of the stream copy. Does nothing if `from` is where `to` lies.
void copy_within(Stream& stream, const void* from, const Tensor& to);

/// The elements of `x` in the host's memory, as float32 if they are bfloat16. On the CPU it returns
/// the elements in place if it can; else it copies them into `room`.
template <class T>
std::span<const T> on_host(Stream& stream, const Tensor& x, std::vector<T>& room) {
  stream.synchronize();
  if (x.device() == Device::cpu && x.dtype() == dtype_of<T>) return x.span<T>();
  room.resize(static_cast<std::size_t>(x.numel()));
  transfer(stream, x, Tensor(room.data(), x.shape(), dtype_of<T>));
  return room;
}

/// The only element of `x`, after all earlier work on `stream` (torch.Tensor.item).
template <class T>
T item(Stream& stream, const Tensor& x) {
  T value{};
  transfer(stream, x, Tensor(&value, {1}, dtype_of<T>));
  return value;
}

}  // namespace nanofsdp
