#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "store/manifest.h"
#include "store/safetensors_header.h"
#include "store/slices.h"

namespace nanofsdp::store {

/// @file
/// @brief The files of a checkpoint that hold parameters and moments: one safetensors file for each
/// rank.
///
/// A piece of a parameter is stored as three tensors of one dimension: NAME, NAME.exp_avg and
/// NAME.exp_avg_sq (PyTorch's names for Adam's moments). The metadata say under NAME which piece it
/// is: `{"range": [4160, 8320], "shape": [65, 128], "step": 250}`. The range counts the parameter's
/// elements, row-major; the step counts the optimizer's steps that the parameter has made. A frozen
/// parameter has neither moments nor steps. Each file can be read without the others, also by the
/// safetensors package for Python.
///
/// A rank of a tensor group has a part of the parameter. The shape is then that of the whole, the
/// range counts the elements of the part, and `"blocks": [64, 1, 2]` says that the part is the
/// second of two, in blocks of 64 elements (whole.h).

/// Writes the slices that one rank saves, after `stream` has computed them.
/// @throws UsageError if the file cannot be written
FileRecord write_rank_file(const std::filesystem::path& path, Stream& stream,
                           const std::vector<StateSlice>& slices);

/// Fills `slices` from the files of all ranks, at any number of ranks. It reads no other elements.
/// @param writes if false, it only finds out whether the files have all elements
/// @param files how many files there are in `directory`
/// @param model all parameters of the model
/// @param steps taken for a parameter if its file does not say how many steps it has made
/// @throws UsageError naming the file if one is malformed; the parameters that are missing, surplus
///   or of another shape, if they are of another model; or a parameter that is not complete
void read_rank_files(const std::filesystem::path& directory, std::size_t files, Stream& stream,
                     std::span<const TensorInfo> model, const std::vector<StateSlice>& slices,
                     std::int64_t steps, bool writes = true);

}  // namespace nanofsdp::store
