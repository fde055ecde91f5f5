#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which modules become units: those that the policy names, and the root, which has the
/// rest.

/// A module that becomes a unit, and the parameters that belong to the unit.
struct WrappedModule {
  nn::Module* module = nullptr;  ///< the unit
  std::string name;              ///< its path, "transformer.h.0"; the root's is "root"
  /// The parameters of its subtree that belong to no unit inside it.
  std::vector<nn::Parameter*> parameters{};
  int depth = 0;          ///< how many units lie around it; 0 for the root
  int forward_index = 0;  ///< how many units forward enters before it, if it calls all in order
};

/// Returns true for each module that becomes a unit (PyTorch's ModuleWrapPolicy). Without a policy
/// the whole model is one unit.
using WrapPolicy = std::function<bool(const nn::Module&)>;

/// The policy that names all modules of one type.
template <class M>
bool is_a(const nn::Module& module) {
  return dynamic_cast<const M*>(&module) != nullptr;
}

/// The units in the order of the module tree, inner before outer, the root last. A unit has the
/// parameters of its subtree that no inner unit has; the root's are those that remain: for nanoGPT
/// the tied wte and lm_head, wpe and ln_f. Names every parameter by its path from the root.
/// @throws Error if two units use one parameter: a tied weight must lie in one unit
std::vector<WrappedModule> wrap(nn::Module& root, const WrapPolicy& policy);

}  // namespace nanofsdp::fsdp
