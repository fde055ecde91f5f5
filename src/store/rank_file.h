#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "store/manifest.h"
#include "store/safetensors_header.h"
#include "store/slices.h"

namespace nanofsdp::store {

/// @file
/// @brief The files of a checkpoint that hold parameters and moments: safetensors, one a rank.
///
/// A piece of a parameter is three tensors of one dimension, NAME, NAME.exp_avg and NAME.exp_avg_sq
/// (PyTorch's names of Adam's moments). The metadata say under NAME which piece it is: `{"range":
/// [4160, 8320], "shape": [65, 128], "step": 250}`, of the parameter's elements, row-major, and the
/// optimizer's steps that it has made. A frozen parameter has neither moments nor steps. So each
/// file can be read without the others, by the safetensors package for Python too.

/// Writes what one rank saves, once `stream` has computed it.
/// @throws UsageError if that fails
FileRecord write_rank_file(const std::filesystem::path& path, Stream& stream,
                           const std::vector<StateSlice>& slices);

/// Fills `slices` from the files of all ranks, however many those were. Reads no other elements.
/// @param files how many there are in `directory`
/// @param model all its parameters
/// @param steps that a parameter has made of which a file does not say so
/// @throws UsageError naming the file if one is malformed; the parameters that are missing, surplus
/// or of another shape, if they are of another model; or a parameter of which a part is missing
void read_rank_files(const std::filesystem::path& directory, std::size_t files, Stream& stream,
                     std::span<const TensorInfo> model, const std::vector<StateSlice>& slices,
                     std::int64_t steps);

}  // namespace nanofsdp::store
