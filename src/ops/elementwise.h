#pragma once

#include "base/dropout_key.h"
#include "base/tensor.h"

namespace nanofsdp::ops {

/// @file
/// @brief Operators that compute each element by itself: add, scale, fill, copy, accumulate,
/// arange, dropout. Operands are float32 unless a comment says another dtype.
///
/// On a GPU the operands of add, accumulate and dropout may also be bfloat16, all operands of a
/// call together. Each element is computed in float32, and rounded once.
///
/// Twins: elementwise.cpp (Eigen), elementwise.cu (CUDA). Both give the same bits.

/// out = a + b.
struct Add {
  Tensor a{};    ///< in
  Tensor b{};    ///< in, same numel
  Tensor out{};  ///< out = a + b; may alias either
};

/// x *= factor.
struct Scale {
  Tensor x{};        ///< in, out: x *= factor
  float factor = 1;  ///< factor of every element
};

/// x = value.
struct Fill {
  Tensor x{};       ///< out: x = value; float32, float64 or bfloat16
  float value = 0;  ///< value of every element
};

/// out = in.
struct Copy {
  Tensor in{};   ///< in
  Tensor out{};  ///< out, same numel and dtype; not overlapping
};

/// out += in.
struct Accumulate {
  Tensor in{};   ///< in
  Tensor out{};  ///< in, out: out += in
};

/// x = 0, 1, ..., period - 1, 0, 1, ...
struct Arange {
  Tensor x{};               ///< out: x[i] = i % period, int32
  std::int64_t period = 1;  ///< at least 1
};

/// y = x / (1 - p) if the mask keeps the element, else 0 (inverted dropout). It is its own
/// backward: apply it to dy with the same key. Row r of x is global row key.first_row + r.
struct Dropout {
  Tensor x{};        ///< in   [rows, ...]
  Tensor y{};        ///< out  same shape; may alias x
  float p = 0;       ///< probability of dropping an element, in [0, 1)
  DropoutKey key{};  ///< decides the mask
};

/// An addition costs one operation for each element.
inline Cost cost(const Add& a) { return moves({a.a, a.b}, {a.out}, 1); }
/// A scaling costs one operation for each element.
inline Cost cost(const Scale& a) { return moves({a.x}, {a.x}, 1); }
inline Cost cost(const Fill& a) { return moves({}, {a.x}); }        ///< no operation
inline Cost cost(const Copy& a) { return moves({a.in}, {a.out}); }  ///< no operation
/// An accumulation costs one operation for each element.
inline Cost cost(const Accumulate& a) { return moves({a.in, a.out}, {a.out}, 1); }
inline Cost cost(const Arange& a) { return moves({}, {a.x}); }  ///< no operation
/// Dropout costs one operation for each element, and about twelve for its mask.
inline Cost cost(const Dropout& a) { return moves({a.x}, {a.y}, 13); }

/// Each enqueues its operator on `stream`.
/// @throws ShapeError naming the operand that does not fit
void add(Stream& stream, const Add& a);
/// @copydoc add()
void scale(Stream& stream, const Scale& a);
/// @copydoc add()
void fill(Stream& stream, const Fill& a);
/// @copydoc add()
void copy(Stream& stream, const Copy& a);
/// @copydoc add()
void accumulate(Stream& stream, const Accumulate& a);
/// @copydoc add()
void arange(Stream& stream, const Arange& a);
/// @copydoc add()
void dropout(Stream& stream, const Dropout& a);

}  // namespace nanofsdp::ops
