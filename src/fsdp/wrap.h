#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which modules become units: those the policy names, and the root for what is left.

/// A module of the tree that FSDP shards as one, with the parameters it answers for.
struct WrappedModule {
  nn::Module* module = nullptr;  ///< the unit
  std::string name;              ///< its path, "transformer.h.0"; the root's is "root"
  /// Those of its subtree that no unit inside it has.
  std::vector<nn::Parameter*> parameters{};
  int depth = 0;    ///< units around it; the root's is 0
  int entered = 0;  ///< units that forward has entered before it, if it calls each once, in order
};

/// True for a module that is to be a unit of its own (PyTorch's ModuleWrapPolicy). Without one all
/// of the model is one unit.
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
