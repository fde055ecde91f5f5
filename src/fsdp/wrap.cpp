#include "fsdp/wrap.h"

#include <map>
#include <set>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

struct Wrapper {
  // Gives the unit every parameter below `module`, except the parameters of inner units. Inner
  // units are added to `units` before the outer one.
  void visit(nn::Module& module, const std::string& path, WrappedModule& unit) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [name, p] : module.own_parameters()) take(*p, prefix + name, unit);
    for (const auto& [name, child] : module.children()) {
      const std::string child_path = prefix + name;
      if (!policy || !policy(*child)) {
        visit(*child, child_path, unit);
        continue;
      }
      if (!wrapped.insert(child).second) continue;  // the tree has this module under two names
      WrappedModule inner{
          .module = child, .name = child_path, .depth = unit.depth + 1, .forward_index = ++begun};
      visit(*child, child_path, inner);
      units.push_back(std::move(inner));
    }
  }

  void take(nn::Parameter& parameter, const std::string& path, WrappedModule& unit) {
    const auto [known, is_new] = owner.emplace(&parameter, unit.name);
    if (is_new) {
      if (!parameter.sharded) parameter.name = path;
      return unit.parameters.push_back(&parameter);
    }
    NANOFSDP_CHECK(known->second == unit.name, .what = "tied parameter " + parameter.name,
                   .expected = "all its uses in one FSDP unit",
                   .got = "uses in '" + known->second + "' and '" + unit.name + "'",
                   .hint = "leave both modules to the root unit");
  }

  const WrapPolicy& policy;
  std::vector<WrappedModule> units{};
  int begun = 0;  // number of units inside the root that the visit has reached
  std::set<const nn::Module*> wrapped{};
  std::map<nn::Parameter*, std::string> owner{};
};

}  // namespace

std::vector<WrappedModule> wrap(nn::Module& root, const WrapPolicy& policy) {
  Wrapper wrapper{policy};
  WrappedModule outer{.module = &root, .name = "root"};
  wrapper.visit(root, "", outer);
  wrapper.units.push_back(std::move(outer));
  return std::move(wrapper.units);
}

}  // namespace nanofsdp::fsdp
