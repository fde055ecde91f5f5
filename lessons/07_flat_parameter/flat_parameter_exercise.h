#pragma once

#include <span>
#include <vector>

#include "fsdp/layout.h"

/// The exercise of lesson 07: the views of all parameters in one row, and the way back, from an
/// element of the row to its place in a matrix.
///
/// The first parameter begins at element 0. Each later parameter begins at the smallest multiple of
/// `alignment` that is not less than the end of the parameter before it. Example, with alignment 4:
/// A has 6 elements and B has 5, so A lies at [0, 6) and B at [8, 13).
///
/// @param row        the memory of all parameters; it is long enough. Copy nothing, write nothing
/// @param parameters in the order in which they lie in the row; some may have no elements
/// @param alignment  in elements, at least 1
/// @return one view for each parameter: it begins at the parameter's first element and has
///   shape.numel() elements
std::vector<std::span<float>> views(std::span<float> row,
                                    std::span<const nanofsdp::fsdp::ParameterSpec> parameters,
                                    std::int64_t alignment);

/// A place in a matrix of the row.
struct Place {
  int parameter = -1;  ///< the index of the matrix; -1: the element belongs to no parameter
  std::int64_t i = 0;  ///< the row of the matrix
  std::int64_t j = 0;  ///< the column
};

/// @param element    an element of the row, from 0 on; it may lie in a gap or behind all parameters
/// @param parameters matrices: shape[0] rows of shape[1] elements, stored row by row
/// @param alignment  as in views()
/// @return the place of the element
Place place_of(std::int64_t element, std::span<const nanofsdp::fsdp::ParameterSpec> parameters,
               std::int64_t alignment);
