#pragma once

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace lesson {

/// @file
/// @brief PyTorch's results, for comparison. They are in the files of NANOFSDP_GOLDEN.

/// The losses of nanoGPT's first steps on the tales, in float64. A script with PyTorch has written
/// lines "step loss grad_norm", counted from step 1. If the file has no such line, the loss is 0,
/// with which every claim fails.
inline std::vector<double> pytorch_losses(std::size_t steps) {
  std::ifstream file(NANOFSDP_GOLDEN "/curve_tales_nanogpt.txt");
  std::string heading;
  std::getline(file, heading);
  std::vector<double> losses;
  double step = 0, loss = 0, norm = 0;
  while (losses.size() < steps && file >> step >> loss >> norm) losses.push_back(loss);
  losses.resize(steps);
  return losses;
}

}  // namespace lesson
