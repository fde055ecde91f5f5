#pragma once

#include <span>
#include <vector>

#include "base/device.h"
#include "base/tensor.h"

namespace nanofsdp {

/// @file
/// @brief Between the host's memory and a device's. The only way for the host to see a tensor that
/// may lie on a GPU, and for what it made to get there.

/// Elements of `in` to `out`, both in the host's memory, without a stream: as they are, or rounded
/// to bfloat16, or widened to float32.
void convert(const Tensor& in, const Tensor& out);

/// Enqueues out = in; either tensor on the host or on the stream's device. Bytes as they are, but
/// between float32 and bfloat16 the host converts, if one of the two lies there. On a compute
/// stream, a tensor on the host is free again when this returns, and what is written there can be
/// read: the call waits for all work before it.
/// @throws what that work threw
/// @throws ShapeError if the number of elements differs, or dtypes do that the host cannot convert
void transfer(Stream& stream, const Tensor& in, const Tensor& out);

/// For work inside a stream: the bytes at `from`, on its device, to `to`, by all threads of the
/// stream. Nothing if `to` is there already.
void copy_within(Stream& stream, const void* from, const Tensor& to);

/// The elements of `x`, float32 if it is bfloat16, where the host sees them: in place on the CPU,
/// else copied into `room`.
template <class T>
std::span<const T> on_host(Stream& stream, const Tensor& x, std::vector<T>& room) {
  stream.synchronize();
  if (x.device() == Device::cpu && x.dtype() == dtype_of<T>) return x.span<T>();
  room.resize(static_cast<std::size_t>(x.numel()));
  transfer(stream, x, Tensor(room.data(), x.shape(), dtype_of<T>));
  return room;
}

/// The only element of `x`, once everything before it on `stream` is done (torch.Tensor.item).
template <class T>
T item(Stream& stream, const Tensor& x) {
  T value{};
  transfer(stream, x, Tensor(&value, {1}, dtype_of<T>));
  return value;
}

}  // namespace nanofsdp
