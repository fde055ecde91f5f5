#pragma once

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace lesson {

/// @file
/// @brief What PyTorch once said, to compare with. NANOFSDP_GOLDEN is where it is written down.

/// The losses of nanoGPT's first steps on the tales, in float64; a script with PyTorch wrote lines
/// "step loss grad_norm", counted from step 1. A loss of 0, which no claim survives, where the file
/// has none.
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
