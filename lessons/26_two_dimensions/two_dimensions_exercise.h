#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// The exercise of lesson 26: an MLP without a nonlinearity, z = B (A x), on a tensor group of T
/// ranks. The first matrix is column parallel, the second is row parallel. All vectors and matrices
/// are rows of float32, matrices row by row.

/// Replaces the elements of a vector by their sums over the tensor group. All ranks call it at the
/// same places. It sends 2 (T - 1) / T of the vector's elements.
using AddUp = std::function<void(std::vector<float>&)>;

/// The rank's part of the two matrices.
struct Parts {
  int in, hidden,
      out;  ///< x has `in` elements; this rank has `hidden` elements of A x; z has `out`
  std::vector<float> A;  ///< [hidden, in]: these rows of the whole A
  std::vector<float> B;  ///< [out, hidden]: these columns of the whole B
};

/// @param x [in], the same on all ranks
/// @return z [out], the same on all ranks
std::vector<float> forward(const Parts& parts, const std::vector<float>& x, const AddUp& add_up);

/// @param dz [out], the gradient of z, the same on all ranks
/// @return dx [in], the gradient of x, the same on all ranks
std::vector<float> backward(const Parts& parts, const std::vector<float>& dz, const AddUp& add_up);

/// The bytes that a rank sends for a block of the lesson in a forward and its backward, in float32.
/// @param tokens of the tensor group, a multiple of T  @param C the model's width
/// @param sequence false: the four all-reduces of the lesson. True: sequence parallelism. An
///        all-gather over the tokens stands before each column-parallel matrix in forward, and a
///        reduce-scatter after each row-parallel one. Backward has the opposite of each: a
///        reduce-scatter for the all-gather, an all-gather for the reduce-scatter. Between them, a
///        rank computes the layer norms of its tokens only, and saves only these tokens. So
///        backward gathers the input of each column-parallel matrix once more. A rank then has only
///        its tokens' share of the gradients of the two layer norms, which have C elements each.
///        One all-reduce adds them up.
std::int64_t bytes_sent(std::int64_t tokens, std::int64_t C, std::int64_t T, bool sequence);
