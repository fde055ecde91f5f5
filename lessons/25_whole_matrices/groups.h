#pragma once

#include <functional>
#include <string>

#include "nn/parameter.h"

/// @file
/// @brief Parameter groups: learning rates, decay and the choice of the optimizer, by name or
/// shape.

namespace lesson {

using namespace nanofsdp;

/// The treatment of a parameter: one of PyTorch's parameter groups.
struct Group {
  bool muon = false;        ///< Muon updates it; it is a matrix. AdamW updates all others
  double lr_factor = 1;     ///< the step's learning rate is multiplied by it
  double weight_decay = 0;  ///< a step takes this, times its learning rate, of each weight
};

//! [group]
/// Muon for all matrices of a GPT but its tables of tokens and positions. Matrices decay.
inline Group gpt_group(const nn::Parameter& p) {
  const auto has = [&](const char* part) { return p.name.find(part) != std::string::npos; };
  const bool matrix = p.shape.rank() == 2, table = has("wte") || has("wpe") || has("lm_head");
  return {.muon = matrix && !table, .weight_decay = matrix ? 0.1 : 0};
}
//! [group]

/// The group of each parameter.
using Groups = std::function<Group(const nn::Parameter&)>;

}  // namespace lesson
