#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/mixed_precision.h"
#include "nn/module.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Which modules become units: those that the policy names, and the root, which has the
/// rest.

/// Whether a module becomes a unit, and the options of this unit. If an option is not set, the
/// model's option counts. A bool converts to this type. If a module is no unit, nothing else
/// counts.
struct UnitOptions {
  UnitOptions(bool becomes_unit = false) : is_unit(becomes_unit) {}

  bool is_unit;
  /// Whether the unit is resharded between forward and backward. It has no effect if the strategy
  /// does not shard parameters.
  std::optional<bool> reshard_after_forward{};
  /// The dtypes of the unit's collectives. A GPU computes all units in one dtype. There param_dtype
  /// must be the model's.
  std::optional<MixedPrecision> precision{};
  /// All modules with this name form one unit, which has it too (FSDP2's fully_shard of a list).
  /// They have the same options, and none lies inside another. Without a name the module is a unit
  /// by itself.
  ///
  /// The unit is gathered when one of its modules needs it, and stays unsharded until the last of
  /// them, in the order of the tree, ends its forward; or until the root does, if the pass leaves
  /// the last one out. In backward it stays until the first one ends, or all that the pass has
  /// used. If other units compute in between, set reshard_after_forward to false: then the unit has
  /// a slot of its own.
  std::string group{};

  friend bool operator==(const UnitOptions&, const UnitOptions&) = default;
};

/// A module that becomes a unit, or several modules of one group; and the parameters that belong to
/// the unit.
struct WrappedModule {
  nn::Module* module = nullptr;  ///< the unit's module; of a group, the first one
  std::string name;  ///< its path, "transformer.h.0", or its group; the root's path is "root"
  /// The parameters of its subtree, or of those of the group, that belong to no unit inside it.
  std::vector<nn::Parameter*> parameters{};
  int depth = 0;          ///< how many units lie around it; 0 for the root
  int forward_index = 0;  ///< how many units forward enters before it, if it calls all in order
  UnitOptions options{};  ///< the policy's answer
  std::vector<nn::Module*> modules{};  ///< all modules of the unit, the first one too
};

/// Returns true, or options, for each module that becomes a unit (PyTorch's ModuleWrapPolicy). The
/// root is always a unit; it has options if the policy returns them for it. Without a policy the
/// whole model is one unit.
///
///     .wrap_policy = [](const nn::Module& module) {
///       fsdp::UnitOptions unit = fsdp::is_a<Block>(module) || fsdp::is_a<Norm>(module);
///       if (fsdp::is_a<Norm>(module)) unit.precision = fsdp::MixedPrecision();  // float32
///       return unit;
///     }
using WrapPolicy = std::function<UnitOptions(const nn::Module&)>;

/// The policy that names all modules of one type.
template <class M>
bool is_a(const nn::Module& module) {
  return dynamic_cast<const M*>(&module) != nullptr;
}

/// The units in the order of the module tree, inner before outer, the root last. A group has the
/// place of its last module. A unit has the parameters of its subtree that no inner unit has. The
/// root has those that remain: for nanoGPT the tied wte and lm_head, wpe and ln_f. Names every
/// parameter by its path from the root.
/// @throws Error if two units use one parameter, because a tied weight must lie in one unit; or if
///         modules of a group differ in options or lie inside each other
std::vector<WrappedModule> wrap(nn::Module& root, const WrapPolicy& policy);

}  // namespace nanofsdp::fsdp
